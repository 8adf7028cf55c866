import { Textarea } from "@mantine/core";
import { useState } from "react";

import { messageOf } from "@/api/problem";
import { FormDialog } from "@/components/FormDialog";
import { type Machine, nameOf, replicaCount } from "@/machines/machine";

import { decisions, useDecision } from "./queries";

interface DistrustProps {
  machine: Machine;
  close: () => void;
}

/** The end of a machine that somebody lends, with the reason that its owner reads. */
export function BanMachine({ machine, close }: DistrustProps) {
  const [reason, setReason] = useState("");
  const ban = useDecision(() => decisions.ban(machine, reason.trim() || null), `${nameOf(machine)} is banned.`, close);
  return (
    <FormDialog
      opened
      destructive
      close={close}
      title={`Ban ${nameOf(machine)}`}
      action="Ban"
      submit={() => ban.mutate(undefined)}
      busy={ban.isPending}
    >
      <p>
        Moorage speaks to it no more. {machine.replicas > 0 ? `${replicaCount(machine.replicas)} there ${machine.replicas === 1 ? "is" : "are"} replaced elsewhere. ` : ""}
        Its organization lends no further machine while one of theirs is banned. What it earned stays, unless you void it.
      </p>
      <Textarea
        label="Reason"
        description="Its owner reads it."
        data-autofocus
        rows={3}
        maxLength={200}
        value={reason}
        onChange={(event) => setReason(event.currentTarget.value)}
        error={ban.error ? messageOf(ban.error) : null}
      />
    </FormDialog>
  );
}

/** What it earned and is held is taken back. */
export function VoidEarnings({ machine, close }: DistrustProps) {
  const [reason, setReason] = useState("");
  const take = useDecision(
    () => decisions.voidEarnings(machine, reason.trim()),
    `What is held of ${nameOf(machine)}'s earnings is taken back.`,
    close,
  );
  return (
    <FormDialog
      opened
      destructive
      close={close}
      title={`Void held earnings of ${nameOf(machine)}`}
      action="Void them"
      submit={() => take.mutate(undefined)}
      busy={take.isPending}
      disabled={reason.trim().length < 3}
    >
      <p>
        For a machine that is not what its owner says it is. What it served until now and is still held is worth nothing to
        them. What is payable or was sent stays. This cannot be undone.
      </p>
      <Textarea
        label="Reason"
        description="For the owner's audit log."
        data-autofocus
        rows={3}
        maxLength={300}
        value={reason}
        onChange={(event) => setReason(event.currentTarget.value)}
        error={take.error ? messageOf(take.error) : null}
      />
    </FormDialog>
  );
}
