import { FormDialog } from "@/components/FormDialog";
import { ErrorNotice } from "@/components/Patterns";

import { type Listed, replicaCount, replicasOf } from "./machineList";

interface DrainMachineProps {
  one: Listed;
  /** No other machine takes replicas. */
  isOnlyTaker: boolean;
  drain: () => void;
  busy: boolean;
  error: unknown;
  close: () => void;
}

/** Says what happens to what runs there, before it does. */
export function DrainMachine({ one, isOnlyTaker, drain, busy, error, close }: DrainMachineProps) {
  const replicas = replicasOf(one);
  return (
    <FormDialog opened close={close} title={`Drain ${one.name}`} action="Drain" submit={drain} busy={busy}>
      {one.machine?.state === "lost" ? (
        <p>It does not answer now, and what ran there is replaced elsewhere. When it answers again, nothing new starts there.</p>
      ) : replicas === 0 ? (
        <p>Nothing runs there, and nothing new starts. It can be switched off then.</p>
      ) : (
        <>
          <p>
            {replicaCount(replicas)} {replicas === 1 ? "moves" : "move"} to other machines, a few at a time. Each serves until
            another serves in its place. Nothing new starts there.
          </p>
          <p>
            {isOnlyTaker
              ? "No other machine takes replicas now: what runs there stays, and serves, until one does."
              : "What has room nowhere else stays, and serves, until there is room."}
          </p>
        </>
      )}
      <p>You can resume it at any time.</p>
      {error ? <ErrorNotice error={error} /> : null}
    </FormDialog>
  );
}
