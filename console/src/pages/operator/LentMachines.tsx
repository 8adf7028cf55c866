import { Card } from "@/components/Page";
import { Table } from "@/components/Table";
import { duration } from "@/components/times";
import type { Machine } from "@/machines/machine";
import { MachineCondition } from "@/machines/MachineCondition";
import { TIERS } from "@/machines/presence";
import { Reliability, StripLegend } from "@/machines/Reliability";

import { MachineActions } from "./MachineActions";
import { gpusOf, lastSeen, Name, PhoneLine } from "./MachineCells";
import { conditionOf, type Listed, replicasOf } from "./machineList";
import classes from "./Machines.module.css";

interface LentMachinesProps {
  lent: Listed[];
  all: Listed[];
  now: Date;
  organizationName: (id: string) => string;
}

/** Machines of organizations: how far each is trusted, and what it has proven. */
export function LentMachines({ lent, all, now, organizationName }: LentMachinesProps) {
  return (
    <Card flush title="Community machines" hint="Lent by organizations. Proofs come unannounced; owners do not read when.">
      <Table
        rows={lent}
        rowKey={(row) => row.key}
        empty="No organization lends a machine."
        phoneLine={(row) => <PhoneLine one={row} />}
        columns={[
          { head: "Name", cell: (row) => <Name one={row} owner={organizationName(row.machine?.owner_organization_id ?? "")} more={gpusOf(row)} /> },
          { head: "State", cell: (row) => <MachineCondition condition={conditionOf(row, now)} now={now} /> },
          { head: "Trust", wide: true, cell: (row) => (row.machine ? <Trust machine={row.machine} /> : null) },
          { head: "Proof", wider: true, cell: (row) => (row.machine ? <Proof machine={row.machine} now={now} /> : null) },
          { head: "Replicas", right: true, wider: true, cell: (row) => replicasOf(row).toLocaleString("en-US") },
          { head: "Last seen", wider: true, cell: (row) => lastSeen(row, now) },
          { head: "Actions", right: true, cell: (row) => <MachineActions one={row} all={all} /> },
        ]}
      />
      {lent.length > 0 ? <StripLegend /> : null}
    </Card>
  );
}

function Trust({ machine }: { machine: Machine }) {
  return (
    <span className={classes.trust}>
      <span>{machine.tier && machine.joined_at ? TIERS[machine.tier] : "–"}</span>
      <Reliability machine={machine} />
    </span>
  );
}

/** When it last proved what it claims, and when it has to again. */
function Proof({ machine, now }: { machine: Machine; now: Date }) {
  if (!machine.joined_at) return "–";
  const { proven_at: proven, proof_due_at: due, proof_failure: failure } = machine;
  return (
    <span className={classes.proof}>
      <span>{proven ? `Proven ${duration(now.getTime() - new Date(proven).getTime())} ago` : "Not proven yet"}</span>
      {due ? <span>{inWords(new Date(due).getTime() - now.getTime())}</span> : null}
      {failure ? <span data-tone="bad">{failure}</span> : null}
      <span>{machine.runtime ? "Sandbox: gVisor" : "No sandbox"}</span>
    </span>
  );
}

function inWords(ms: number): string {
  return ms > 0 ? `Again in ${duration(ms)}` : "Due now";
}
