import { Button, Checkbox } from "@mantine/core";
import { useState } from "react";

import { Confirm } from "@/components/Confirm";
import { FormDialog } from "@/components/FormDialog";
import { ErrorNotice } from "@/components/Patterns";
import { failed } from "@/components/toasts";

import { type Machine, replicaCount } from "./machine";
import classes from "./Machine.module.css";

/** A change that can be made, under way or failed. */
interface Removal {
  mutate: (force: boolean, options?: { onError: (error: unknown) => void }) => void;
  isPending: boolean;
  error: unknown;
}

interface RemoveMachineProps {
  machine: Machine;
  remove: Removal;
  drainInstead: () => void;
  close: () => void;
}

/** For good. One on which replicas run goes by force only, after a warning. */
export function RemoveMachine({ machine, remove, drainInstead, close }: RemoveMachineProps) {
  const serves = machine.replicas > 0 && !["joining", "lost", "banned"].includes(machine.state);
  const name = machine.name ?? "this machine";
  if (serves) {
    return (
      <ForcedRemoval
        machine={machine}
        drainInstead={drainInstead}
        close={close}
        remove={() => remove.mutate(true)}
        busy={remove.isPending}
        error={remove.error}
      />
    );
  }
  return (
    <Confirm
      opened
      close={close}
      title={`Remove ${name}`}
      action="Remove"
      confirm={() => remove.mutate(false, { onError: failed })}
      busy={remove.isPending}
    >
      {machine.joins_until ? (
        "Its command stops working."
      ) : (
        <>
          {machine.state === "lost" ? "What ran there is replaced elsewhere. " : "Nothing runs there. "}
          The machine comes back only by joining again. <code>moor-node leave</code>, run there, undoes joining
          {machine.state === "lost" ? " and ends what still runs." : "."}
        </>
      )}
    </Confirm>
  );
}

interface ForcedRemovalProps extends Omit<RemoveMachineProps, "remove"> {
  remove: () => void;
  busy: boolean;
  error: unknown;
}

function ForcedRemoval({ machine, drainInstead, close, remove, busy, error }: ForcedRemovalProps) {
  const [agreed, setAgreed] = useState(false);
  const run = `${replicaCount(machine.replicas)} ${machine.replicas === 1 ? "runs" : "run"} there`;
  return (
    <FormDialog
      opened
      close={close}
      destructive
      title={`Remove ${machine.name}`}
      action="Remove now"
      submit={remove}
      busy={busy}
      disabled={!agreed}
    >
      <p className={classes.warning}>{run}. If you remove it now, they are cut off at once, and their requests fail.</p>
      <p>
        Others start elsewhere afterwards, where there is room. Until then their containers serve with fewer replicas, or not
        at all. Drain it first to avoid that. What runs there is ended by <code>moor-node leave</code> on the machine.
      </p>
      {machine.state === "draining" ? null : (
        <Button variant="default" onClick={drainInstead} style={{ alignSelf: "flex-start" }}>
          Drain it instead
        </Button>
      )}
      <Checkbox
        label={`Remove it although ${run}`}
        checked={agreed}
        onChange={(event) => setAgreed(event.currentTarget.checked)}
      />
      {error ? <ErrorNotice error={error} /> : null}
    </FormDialog>
  );
}

export function removedSentence(machine: Machine): string {
  return machine.name ? `${machine.name} is removed.` : "The machine is removed.";
}
