import { FormDialog } from "@/components/FormDialog";
import { ErrorNotice } from "@/components/Patterns";

import { replicaCount } from "./machine";

interface DrainMachineProps {
  name: string;
  replicas: number;
  isLost: boolean;
  /** No other machine takes replicas. */
  isOnlyTaker: boolean;
  drain: () => void;
  busy: boolean;
  error: unknown;
  close: () => void;
}

/** Says what happens to what runs there, before it does. */
export function DrainMachine({ name, replicas, isLost, isOnlyTaker, drain, busy, error, close }: DrainMachineProps) {
  return (
    <FormDialog opened close={close} title={`Drain ${name}`} action="Drain" submit={drain} busy={busy}>
      {isLost ? (
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
