import { Button, Group, Modal, Select, Stack } from "@mantine/core";
import { useState } from "react";

import { FormDialog } from "@/components/FormDialog";
import { ErrorNotice } from "@/components/Patterns";
import { JoinMachine } from "@/machines/JoinMachine";
import { type Machine, nameOf } from "@/machines/machine";
import { words } from "@/machines/words";

import { useJoinCommand, useWish } from "./queries";

interface DialogProps {
  machine: Machine;
  close: () => void;
}

const HOUR_MS = 3_600_000;
const LENGTHS = [
  { value: "", label: "Until I resume it" },
  { value: "1", label: "For an hour" },
  { value: "8", label: "For 8 hours" },
  { value: "24", label: "For a day" },
  { value: "168", label: "For a week" },
];

/** Nothing new starts there; with an end, it is lent again by itself. */
export function PauseUntil({ machine, close }: DialogProps) {
  const [hours, setHours] = useState("");
  const until = () => (hours ? new Date(Date.now() + Number(hours) * HOUR_MS).toISOString() : null);
  const pause = useWish("machines", () => words.pause(machine, until()), `${nameOf(machine)} takes nothing new.`, close);
  return (
    <FormDialog
      opened
      close={close}
      title={`Pause ${nameOf(machine)}`}
      action="Pause"
      submit={() => pause.mutate(undefined)}
      busy={pause.isPending}
    >
      <p>What runs there stays, and goes on earning. Nothing new starts there. A pause costs no reliability.</p>
      <Select
        label="How long"
        data={LENGTHS}
        value={hours}
        allowDeselect={false}
        data-autofocus
        onChange={(value) => setHours(value ?? "")}
      />
      {pause.error ? <ErrorNotice error={pause.error} /> : null}
    </FormDialog>
  );
}

/** Their own use comes first. */
export function Reclaim({ machine, close }: DialogProps) {
  const reclaim = useWish("machines", () => words.reclaim(machine), `${nameOf(machine)} is yours within 30 seconds.`, close);
  return (
    <FormDialog
      opened
      close={close}
      title={`Reclaim ${nameOf(machine)}`}
      action="Reclaim"
      submit={() => reclaim.mutate(undefined)}
      busy={reclaim.isPending}
    >
      <p>
        Have it for yourself: what runs there moves, and within 30 seconds the machine is empty, whatever has not moved by
        then. It costs no reliability. Resume it to lend it again.
      </p>
      {reclaim.error ? <ErrorNotice error={reclaim.error} /> : null}
    </FormDialog>
  );
}

/** A lost machine comes back by itself: what to look at, on it. */
export function BringBack({ machine, close }: DialogProps) {
  return (
    <Modal opened onClose={close} title={`Bring ${nameOf(machine)} back`} closeButtonProps={{ "aria-label": "Close" }}>
      <Stack gap={16}>
        <p>
          It comes back by itself as soon as it is on and reaches the internet. If it is on, ask on the machine why it does
          not answer: <code>systemctl status moorage-node</code>, and restart it there.
        </p>
        <p>Each hour that it is lost counts tenfold. If it is to stay away, remove it.</p>
        <Group justify="flex-end">
          <Button onClick={close}>Close</Button>
        </Group>
      </Stack>
    </Modal>
  );
}

/** For one that has not joined: the first command ran out, or was lost. */
export function AnotherCommand({ machine, close }: DialogProps) {
  const renew = useJoinCommand(() => words.newCommand(machine));
  return (
    <FormDialog
      opened
      wide
      close={close}
      title={`Another command for ${machine.name ?? "this machine"}`}
      action="Get the command"
      submit={() => renew.mutate()}
      busy={renew.isPending}
      outcome={renew.data ? <JoinMachine added={renew.data} machine={machine} renew={renew} close={close} /> : undefined}
    >
      <p>The command that you were given before stops working.</p>
      {renew.error ? <ErrorNotice error={renew.error} /> : null}
    </FormDialog>
  );
}
