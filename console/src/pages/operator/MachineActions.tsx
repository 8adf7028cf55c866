import { Menu } from "@mantine/core";
import { LogOut, Pause, Play, Terminal, Trash2 } from "lucide-react";
import { useState } from "react";

import { ActionMenu } from "@/components/ActionMenu";
import { failed } from "@/components/toasts";

import { RenewCommand } from "./AddMachine";
import { DrainMachine } from "./DrainMachine";
import { isOnlyTaker, type Listed } from "./machineList";
import { decisions, type Intake, type Machine, useDecision } from "./queries";
import { RemoveMachine } from "./RemoveMachine";

const ICON = { size: 16, strokeWidth: 1.5 };

type Asking = "drain" | "remove" | "command" | null;

/** What the operator may say about a machine. Its own has the same words, and cannot be removed. */
export function MachineActions({ one, all }: { one: Listed; all: Listed[] }) {
  const [asking, setAsking] = useState<Asking>(null);
  const close = () => setAsking(null);
  const pause = useDecision(() => say(one, "pause"), `${one.name} takes nothing new. What runs there stays.`, close);
  const resume = useDecision(() => say(one, "resume"), `${one.name} is used again.`, close);
  const drain = useDecision(() => say(one, "drain"), `${one.name} is being emptied.`, close);
  const { machine } = one;
  const wish = wishOf(one);
  return (
    <>
      <ActionMenu label={`Actions of ${one.name}`} busy={pause.isPending || resume.isPending} inDialog={asking !== null}>
        {machine?.joins_until ? (
          <Menu.Item leftSection={<Terminal {...ICON} />} onClick={() => setAsking("command")}>
            Another command
          </Menu.Item>
        ) : null}
        {wish && wish !== "open" ? (
          <Menu.Item leftSection={<Play {...ICON} />} onClick={() => resume.mutate(undefined, { onError: failed })}>
            Resume
          </Menu.Item>
        ) : null}
        {wish && wish !== "cordoned" ? (
          <Menu.Item leftSection={<Pause {...ICON} />} onClick={() => pause.mutate(undefined, { onError: failed })}>
            Pause
          </Menu.Item>
        ) : null}
        {wish && wish !== "draining" ? (
          <Menu.Item leftSection={<LogOut {...ICON} />} onClick={() => setAsking("drain")}>
            Drain
          </Menu.Item>
        ) : null}
        {machine ? (
          <>
            {wish || machine.joins_until ? <Menu.Divider /> : null}
            <Menu.Item color="var(--m-bad)" leftSection={<Trash2 {...ICON} />} onClick={() => setAsking("remove")}>
              Remove
            </Menu.Item>
          </>
        ) : null}
      </ActionMenu>
      {asking === "drain" ? (
        <DrainMachine
          one={one}
          isOnlyTaker={isOnlyTaker(one, all)}
          drain={() => drain.mutate(undefined)}
          busy={drain.isPending}
          error={drain.error}
          close={close}
        />
      ) : null}
      {asking === "remove" && machine ? (
        <RemoveMachine machine={machine} drainInstead={() => setAsking("drain")} close={close} />
      ) : null}
      {asking === "command" && machine ? <RenewCommand machine={machine} close={close} /> : null}
    </>
  );
}

const INTAKES: Record<"pause" | "resume" | "drain", Intake> = { pause: "cordoned", resume: "open", drain: "draining" };

function say({ node, machine }: Listed, verb: "pause" | "resume" | "drain"): Promise<unknown> {
  if (machine) return { pause: decisions.pause, resume: decisions.resumeMachine, drain: decisions.drain }[verb](machine);
  if (node) return decisions.setIntake(node, INTAKES[verb]);
  throw new Error("a machine is its own, or one that joined");
}

/** What was said about it last; null where nothing can be said yet. A lost one may be told what to be when it is back. */
function wishOf({ node, machine }: Listed): Intake | null {
  if (!machine) return node?.intake ?? null;
  const state = machine.state === "lost" ? (machine.returns_as ?? "active") : machine.state;
  return WISHES[state] ?? null;
}

const WISHES: Partial<Record<Machine["state"], Intake>> = { active: "open", paused: "cordoned", draining: "draining" };
