import { Menu } from "@mantine/core";
import { Hourglass, LogOut, Pause, Play, Terminal, Trash2, Unplug } from "lucide-react";
import { useState } from "react";

import { ActionMenu } from "@/components/ActionMenu";
import { failed } from "@/components/toasts";
import { DrainMachine } from "@/machines/DrainMachine";
import { intakeOf, type Machine, nameOf } from "@/machines/machine";
import { words } from "@/machines/words";
import { removedSentence, RemoveMachine } from "@/machines/RemoveMachine";

import { AnotherCommand, BringBack, PauseUntil, Reclaim } from "./LentDialogs";
import { useWish } from "./queries";

const ICON = { size: 16, strokeWidth: 1.5 };

type Asking = "pause" | "drain" | "reclaim" | "back" | "command" | "remove" | null;

/** What the owner may say about a machine. What the operator or Moorage stopped, only the operator opens again. */
export function LentActions({ machine }: { machine: Machine }) {
  const [asking, setAsking] = useState<Asking>(null);
  const close = () => setAsking(null);
  const name = nameOf(machine);
  const resume = useWish("machines", () => words.resume(machine), `${name} is lent again.`, close);
  const drain = useWish("machines", () => words.drain(machine), `${name} is being emptied.`, close);
  const remove = useWish("machines", (force: boolean) => words.remove(machine, force), removedSentence(machine), close);
  const intake = intakeOf(machine);
  const isTheirs = machine.stopped_by === null || machine.stopped_by === "owner";
  if (machine.state === "banned") return null;
  return (
    <>
      <ActionMenu label={`Actions of ${name}`} busy={resume.isPending} inDialog={asking !== null}>
        {machine.joins_until ? (
          <Menu.Item leftSection={<Terminal {...ICON} />} onClick={() => setAsking("command")}>
            Another command
          </Menu.Item>
        ) : null}
        {machine.state === "lost" ? (
          <Menu.Item leftSection={<Unplug {...ICON} />} onClick={() => setAsking("back")}>
            Bring it back
          </Menu.Item>
        ) : null}
        {intake && intake !== "open" && isTheirs ? (
          <Menu.Item leftSection={<Play {...ICON} />} onClick={() => resume.mutate(undefined, { onError: failed })}>
            Resume
          </Menu.Item>
        ) : null}
        {intake === "open" ? (
          <Menu.Item leftSection={<Pause {...ICON} />} onClick={() => setAsking("pause")}>
            Pause
          </Menu.Item>
        ) : null}
        {intake && intake !== "draining" ? (
          <Menu.Item leftSection={<LogOut {...ICON} />} onClick={() => setAsking("drain")}>
            Drain
          </Menu.Item>
        ) : null}
        {intake ? (
          <Menu.Item leftSection={<Hourglass {...ICON} />} onClick={() => setAsking("reclaim")}>
            Reclaim
          </Menu.Item>
        ) : null}
        {intake || machine.joins_until ? <Menu.Divider /> : null}
        <Menu.Item color="var(--m-bad)" leftSection={<Trash2 {...ICON} />} onClick={() => setAsking("remove")}>
          Remove
        </Menu.Item>
      </ActionMenu>
      {asking === "pause" ? <PauseUntil machine={machine} close={close} /> : null}
      {asking === "drain" ? (
        <DrainMachine
          name={name}
          replicas={machine.replicas}
          isLost={machine.state === "lost"}
          isOnlyTaker={false}
          drain={() => drain.mutate(undefined)}
          busy={drain.isPending}
          error={drain.error}
          close={close}
        />
      ) : null}
      {asking === "reclaim" ? <Reclaim machine={machine} close={close} /> : null}
      {asking === "back" ? <BringBack machine={machine} close={close} /> : null}
      {asking === "command" ? <AnotherCommand machine={machine} close={close} /> : null}
      {asking === "remove" ? (
        <RemoveMachine machine={machine} remove={remove} drainInstead={() => setAsking("drain")} close={close} />
      ) : null}
    </>
  );
}
