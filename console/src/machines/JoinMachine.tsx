import { Button, Group, Stack } from "@mantine/core";
import type { ReactNode } from "react";

import { Copy } from "@/components/Copy";
import { ErrorNotice } from "@/components/Patterns";
import { StateIcon } from "@/components/StateIcon";
import { duration, shortTime } from "@/components/times";
import { useNow } from "@/components/useNow";

import { type JoinCommand, type Machine, nameOf } from "./machine";
import classes from "./Machine.module.css";

interface JoinMachineProps {
  added: JoinCommand;
  /** Undefined until the list has it. */
  machine: Machine | undefined;
  renew: { mutate: () => void; isPending: boolean; error: unknown };
  /** What keeps machines from joining. */
  notice?: ReactNode;
  close: () => void;
}

/** The command, the only time that it is shown, and what comes of it. */
export function JoinMachine({ added, machine, renew, notice, close }: JoinMachineProps) {
  const now = useNow();
  const hasJoined = Boolean(machine && machine.state !== "joining");
  const isOver = !machine?.joined_at && new Date(added.expires_at) <= now;
  return (
    <Stack gap={16}>
      {hasJoined ? null : (
        <>
          <p>Run this line on the machine. It says what it is going to do, and asks first.</p>
          <div className={classes.command}>
            <code>{added.command}</code>
            <Copy text={added.command} label="Copy the command" withLabel />
          </div>
          <p className={classes.hint}>
            It works for one machine, until {shortTime(added.expires_at, now)}. If a step fails, run the same line again. It is
            shown this once; <em>Another command</em> in the machine&apos;s menu makes a new one.
          </p>
          {notice}
        </>
      )}
      <JoinProgress machine={machine} isOver={isOver} left={duration(new Date(added.expires_at).getTime() - now.getTime())} />
      {renew.error ? <ErrorNotice error={renew.error} /> : null}
      <Group justify="flex-end" gap={8}>
        {isOver ? (
          <Button variant="default" loading={renew.isPending} onClick={() => renew.mutate()}>
            Get another command
          </Button>
        ) : null}
        <Button onClick={close}>{hasJoined ? "Done" : "Close"}</Button>
      </Group>
    </Stack>
  );
}

export function JoinProgress({ machine, isOver, left }: { machine: Machine | undefined; isOver: boolean; left: string }) {
  const name = machine ? nameOf(machine) : "";
  if (machine && machine.state !== "joining") {
    return (
      <p className={classes.progress} role="status">
        <StateIcon state="RUNNING" />
        {name} has joined. {machine.message}
      </p>
    );
  }
  if (machine?.joined_at) {
    return (
      <p className={classes.progress} role="status">
        <StateIcon state="STARTING" />
        {name} has joined. Its first answer through the tunnel is awaited.
      </p>
    );
  }
  return (
    <p className={classes.progress}>
      <StateIcon state={isOver ? "STOPPED" : "PENDING"} />
      {isOver ? "The command ran out." : `Waits for the machine, ${left} more.`}
    </p>
  );
}
