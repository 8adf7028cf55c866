import { Button, TextInput } from "@mantine/core";
import { Clock, RotateCw } from "lucide-react";
import { useState } from "react";

import { messageOf, Problem } from "@/api/problem";
import { Copy } from "@/components/Copy";
import { Card } from "@/components/Page";
import { ErrorNotice } from "@/components/Patterns";
import { duration } from "@/components/times";
import { useNow } from "@/components/useNow";
import { JoinProgress } from "@/machines/JoinMachine";
import type { JoinCommand, Machine } from "@/machines/machine";
import { words } from "@/machines/words";

import classes from "./Machines.module.css";
import { useJoinCommand, wishes } from "./queries";

/** One line makes a machine theirs to lend: a name, then the command, then what comes of it. */
export function Add({ organizationId, machines, close }: { organizationId: string; machines: Machine[]; close: () => void }) {
  const [name, setName] = useState("");
  const add = useJoinCommand(() => wishes.lend(organizationId, name.trim() || null));
  if (add.data) return <Added key={add.data.id} first={add.data} machines={machines} done={close} />;
  const aboutName = problemWithName(add.error);
  return (
    <Card title="Add a machine" hint="Debian or Ubuntu, with root access and outbound internet. The command says what it will do and asks first.">
      <form
        className={classes.add}
        onSubmit={(event) => {
          event.preventDefault();
          add.mutate();
        }}
      >
        <TextInput
          label="Name"
          placeholder="garage-3090"
          description="Empty: its host name."
          value={name}
          maxLength={63}
          spellCheck={false}
          autoComplete="off"
          onChange={(event) => setName(event.currentTarget.value)}
          error={aboutName}
        />
        <Button type="submit" variant="default" loading={add.isPending}>
          Get the command
        </Button>
        {machines.length > 0 ? (
          <Button variant="subtle" color="var(--m-ink-2)" onClick={close}>
            Cancel
          </Button>
        ) : null}
      </form>
      {add.error && !aboutName ? <ErrorNotice error={add.error} /> : null}
    </Card>
  );
}

function Added({ first, machines, done }: { first: JoinCommand; machines: Machine[]; done: () => void }) {
  const renew = useJoinCommand(() => words.newCommand(first));
  const added = renew.data ?? first;
  const now = useNow();
  const machine = machines.find((one) => one.id === added.id);
  const left = new Date(added.expires_at).getTime() - now.getTime();
  const hasJoined = Boolean(machine && machine.state !== "joining");
  const isOver = !machine?.joined_at && left <= 0;
  return (
    <Card
      title="Add a machine"
      hint="Run this on Debian or Ubuntu. It says what it will do and asks first. If it fails, run it again."
      action={
        hasJoined ? (
          <Button size="xs" onClick={done}>
            Done
          </Button>
        ) : (
          <>
            <span className={classes.expires}>
              <Clock size={16} strokeWidth={1.5} aria-hidden />
              {isOver ? "Ran out" : `Expires in ${duration(left)}`}
            </span>
            <Button
              size="xs"
              variant="subtle"
              color="var(--m-ink-2)"
              leftSection={<RotateCw size={14} strokeWidth={1.5} />}
              loading={renew.isPending}
              onClick={() => renew.mutate()}
            >
              New token
            </Button>
          </>
        )
      }
    >
      {hasJoined ? null : (
        <>
          <div className={classes.command}>
            <code>{added.command}</code>
            <Copy text={added.command} label="Copy the command" withLabel />
          </div>
          <p className={classes.facts}>
            <span>For one machine, once. It is shown this once.</span>
            <span>It dials out: no open port, works behind NAT.</span>
            <span>
              <code>moor-node leave</code> removes all of it.
            </span>
          </p>
        </>
      )}
      <div className={hasJoined ? undefined : classes.joined}>
        <JoinProgress machine={machine} isOver={isOver} left={duration(left)} />
      </div>
      {renew.error ? <ErrorNotice error={renew.error} /> : null}
    </Card>
  );
}

function problemWithName(error: unknown): string | null {
  if (!(error instanceof Problem)) return null;
  if (error.code === "name_taken") return messageOf(error);
  return error.fields()["name"] ?? null;
}
