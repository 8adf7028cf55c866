import { Menu } from "@mantine/core";
import { Ban, CircleDollarSign, LogOut, Pause, Play, Terminal, Trash2, Undo2 } from "lucide-react";
import { useState } from "react";

import { ActionMenu } from "@/components/ActionMenu";
import { failed } from "@/components/toasts";
import { DrainMachine } from "@/machines/DrainMachine";
import { intakeOf, type Machine } from "@/machines/machine";
import { words } from "@/machines/words";
import { removedSentence, RemoveMachine } from "@/machines/RemoveMachine";

import { RenewCommand } from "./AddMachine";
import { BanMachine, VoidEarnings } from "./DistrustMachine";
import { isLent, isOnlyTaker, type Listed, replicasOf } from "./machineList";
import { decisions, type Intake, useDecision } from "./queries";

const ICON = { size: 16, strokeWidth: 1.5 };

type Asking = "drain" | "remove" | "command" | "ban" | "void" | null;

/** What the operator may say about a machine. Its own has the same words, and cannot be removed. */
export function MachineActions({ one, all }: { one: Listed; all: Listed[] }) {
  const [asking, setAsking] = useState<Asking>(null);
  const close = () => setAsking(null);
  const pause = useDecision(() => say(one, "pause"), `${one.name} takes nothing new. What runs there stays.`, close);
  const resume = useDecision(() => say(one, "resume"), `${one.name} is used again.`, close);
  const drain = useDecision(() => say(one, "drain"), `${one.name} is being emptied.`, close);
  const unban = useDecision(() => (one.machine ? decisions.unban(one.machine) : Promise.resolve()), `${one.name} may come back.`, close);
  const { machine } = one;
  const intake = machine ? intakeOf(machine) : (one.node?.intake ?? null);
  return (
    <>
      <ActionMenu label={`Actions of ${one.name}`} busy={pause.isPending || resume.isPending} inDialog={asking !== null}>
        {machine?.joins_until ? (
          <Menu.Item leftSection={<Terminal {...ICON} />} onClick={() => setAsking("command")}>
            Another command
          </Menu.Item>
        ) : null}
        {intake && intake !== "open" ? (
          <Menu.Item leftSection={<Play {...ICON} />} onClick={() => resume.mutate(undefined, { onError: failed })}>
            Resume
          </Menu.Item>
        ) : null}
        {intake && intake !== "cordoned" ? (
          <Menu.Item leftSection={<Pause {...ICON} />} onClick={() => pause.mutate(undefined, { onError: failed })}>
            Pause
          </Menu.Item>
        ) : null}
        {intake && intake !== "draining" ? (
          <Menu.Item leftSection={<LogOut {...ICON} />} onClick={() => setAsking("drain")}>
            Drain
          </Menu.Item>
        ) : null}
        {machine && isLent(one) ? (
          <Distrust machine={machine} ask={setAsking} unban={() => unban.mutate(undefined, { onError: failed })} />
        ) : null}
        {machine ? (
          <>
            {intake || machine.joins_until ? <Menu.Divider /> : null}
            <Menu.Item color="var(--m-bad)" leftSection={<Trash2 {...ICON} />} onClick={() => setAsking("remove")}>
              Remove
            </Menu.Item>
          </>
        ) : null}
      </ActionMenu>
      {asking === "drain" ? (
        <DrainMachine
          name={one.name}
          replicas={replicasOf(one)}
          isLost={machine?.state === "lost"}
          isOnlyTaker={isOnlyTaker(one, all)}
          drain={() => drain.mutate(undefined)}
          busy={drain.isPending}
          error={drain.error}
          close={close}
        />
      ) : null}
      {asking === "remove" && machine ? (
        <Removal machine={machine} drainInstead={() => setAsking("drain")} close={close} />
      ) : null}
      {asking === "command" && machine ? <RenewCommand machine={machine} close={close} /> : null}
      {asking === "ban" && machine ? <BanMachine machine={machine} close={close} /> : null}
      {asking === "void" && machine ? <VoidEarnings machine={machine} close={close} /> : null}
    </>
  );
}

/** What may be said about a machine of somebody else's. */
function Distrust({ machine, ask, unban }: { machine: Machine; ask: (what: Asking) => void; unban: () => void }) {
  return (
    <>
      <Menu.Divider />
      {machine.joined_at ? (
        <Menu.Item leftSection={<CircleDollarSign {...ICON} />} onClick={() => ask("void")}>
          Void held earnings
        </Menu.Item>
      ) : null}
      {machine.state === "banned" ? (
        <Menu.Item leftSection={<Undo2 {...ICON} />} onClick={unban}>
          Unban
        </Menu.Item>
      ) : (
        <Menu.Item color="var(--m-bad)" leftSection={<Ban {...ICON} />} onClick={() => ask("ban")}>
          Ban
        </Menu.Item>
      )}
    </>
  );
}

function Removal({ machine, drainInstead, close }: { machine: Machine; drainInstead: () => void; close: () => void }) {
  const remove = useDecision((force: boolean) => words.remove(machine, force), removedSentence(machine), close);
  return <RemoveMachine machine={machine} remove={remove} drainInstead={drainInstead} close={close} />;
}

const INTAKES: Record<"pause" | "resume" | "drain", Intake> = { pause: "cordoned", resume: "open", drain: "draining" };

function say({ node, machine }: Listed, verb: "pause" | "resume" | "drain"): Promise<unknown> {
  if (machine) return words[verb](machine);
  if (node) return decisions.setIntake(node, INTAKES[verb]);
  throw new Error("a machine is its own, or one that joined");
}
