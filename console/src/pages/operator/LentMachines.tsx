import { Card } from "@/components/Page";
import { Table } from "@/components/Table";
import { duration } from "@/components/times";
import { counted } from "@/machines/condition";
import { type Machine, seenAgo } from "@/machines/machine";
import { MachineCondition } from "@/machines/MachineCondition";
import { tierOf } from "@/machines/presence";
import { Reliability, StripLegend } from "@/machines/Reliability";

import { MachineActions } from "./MachineActions";
import { gpusOf, lastSeen, Name } from "./MachineCells";
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
    <Card flush title="Community machines" hint={`${counted(lent.map((one) => conditionOf(one, now).look))}. Hardware checks are unannounced; owners do not see when.`}>
      <Table
        rows={lent}
        rowKey={(row) => row.key}
        empty="No organization lends a machine."
        columns={[
          { head: "Name", cell: (row) => <Name one={row} owner={organizationName(row.machine?.owner_organization_id ?? "")} more={gpusOf(row)} /> },
          { head: "State", cell: (row) => <MachineCondition condition={conditionOf(row, now)} now={now} /> },
          { head: "Tier and reliability", wide: true, cell: (row) => (row.machine ? <Trust machine={row.machine} /> : null) },
          { head: "Hardware check", wider: true, cell: (row) => (row.machine ? <Proof machine={row.machine} now={now} /> : null) },
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
      <span>{tierOf(machine)}</span>
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
      <span>{proven ? `Passed ${seenAgo(now.getTime() - new Date(proven).getTime())}` : "Not passed yet"}</span>
      {due ? <span>{inWords(new Date(due).getTime() - now.getTime())}</span> : null}
      {failure ? <span data-tone="bad">{failure}</span> : null}
      <span>{machine.runtime ? "gVisor sandbox" : "No sandbox"}</span>
    </span>
  );
}

function inWords(ms: number): string {
  return ms > 0 ? `Next in ${duration(ms)}` : "Next one is due";
}
