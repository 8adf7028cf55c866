import { TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { messageOf, Problem } from "@/api/problem";
import { FormDialog } from "@/components/FormDialog";
import { ErrorNotice } from "@/components/Patterns";
import { JoinMachine } from "@/machines/JoinMachine";
import type { JoinCommand, Machine } from "@/machines/machine";
import { words } from "@/machines/words";

import { decisions, machinesQuery, useJoinCommand } from "./queries";
import { TunnelNotice } from "./TunnelNotice";

/** A name, then the command that makes a server part of this installation. */
export function AddMachine({ close }: { close: () => void }) {
  const [name, setName] = useState("");
  const add = useJoinCommand(() => decisions.addMachine(name.trim() || null));
  const aboutName = problemWithName(add.error);
  return (
    <FormDialog
      opened
      wide
      close={close}
      title="Add a machine"
      action="Get the command"
      submit={() => add.mutate()}
      busy={add.isPending}
      outcome={add.data ? <Joining first={add.data} close={close} /> : undefined}
    >
      <p>
        Any server with Debian 12 or newer, or Ubuntu 24.04 or newer. It may stand behind a router: it dials this
        installation, and opens no port.
      </p>
      <TextInput
        label="Name"
        description="Empty: its host name."
        placeholder="rack-7"
        data-autofocus
        value={name}
        maxLength={63}
        spellCheck={false}
        autoComplete="off"
        onChange={(event) => setName(event.currentTarget.value)}
        error={aboutName}
      />
      {add.error && !aboutName ? <ErrorNotice error={add.error} /> : null}
    </FormDialog>
  );
}

/** Another command for one that has not joined: the first ran out, or was lost. */
export function RenewCommand({ machine, close }: { machine: Machine; close: () => void }) {
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
      outcome={renew.data ? <Joining first={renew.data} close={close} /> : undefined}
    >
      <p>The command that you were given before stops working.</p>
      {renew.error ? <ErrorNotice error={renew.error} /> : null}
    </FormDialog>
  );
}

function Joining({ first, close }: { first: JoinCommand; close: () => void }) {
  const renew = useJoinCommand(() => words.newCommand(first));
  const machine = useQuery(machinesQuery).data?.find((one) => one.id === first.id);
  return (
    <JoinMachine added={renew.data ?? first} machine={machine} renew={renew} notice={<TunnelNotice />} close={close} />
  );
}

function problemWithName(error: unknown): string | null {
  if (!(error instanceof Problem)) return null;
  if (error.code === "name_taken") return messageOf(error);
  return error.fields()["name"] ?? null;
}
