import { Card } from "@/components/Page";
import { type Column, Table } from "@/components/Table";
import { zone } from "@/components/times";
import { useNow } from "@/components/useNow";
import { gpuName } from "@/containers/resources";
import { joinedCondition } from "@/machines/condition";
import { type Machine, nameOf, replicaCount, seenAgo } from "@/machines/machine";
import { MachineCondition } from "@/machines/MachineCondition";
import { tierOf } from "@/machines/presence";
import { Reliability, StripLegend } from "@/machines/Reliability";

import { inCents } from "./cents";
import { LentActions } from "./LentActions";
import classes from "./Machines.module.css";
import type { MonthEarnings } from "./queries";
import { monthName } from "./Sums";

interface YourMachinesProps {
  machines: Machine[];
  month: MonthEarnings | undefined;
  isAdmin: boolean;
}

/** Each machine: how it is, how far it is trusted and why, what it serves and earns. */
export function YourMachines({ machines, month, isAdmin }: YourMachinesProps) {
  const now = useNow(5_000);
  const earned = new Map(month?.items.map((one) => [one.machine_id, one.earned_microusd]));
  const columns: Column<Machine>[] = [
    { head: "Name", cell: (row) => <Name machine={row} /> },
    { head: "GPU", wider: true, cell: (row) => <Serves machine={row} /> },
    { head: "State", cell: (row) => <MachineCondition condition={joinedCondition(row, "owner", now)} now={now} /> },
    { head: "Tier", wider: true, cell: tierOf },
    { head: "Reliability, 30 days", wide: true, cell: (row) => <Reliability machine={row} /> },
  ];
  if (month) {
    const amount = (row: Machine) => inCents(earned.get(row.id) ?? 0).replace("$", "");
    columns.push({ head: `Earned in ${monthName(month.month)}, USD`, right: true, wider: true, cell: amount });
  }
  columns.push({ head: "Last seen", wider: true, cell: (row) => lastSeen(row, now) });
  if (isAdmin) columns.push({ head: "Actions", right: true, cell: (row) => <LentActions machine={row} /> });
  return (
    <Card flush title="Your machines" hint={`Only this organization and the operator see this list. Times in ${zone}.`}>
      <Table
        rows={machines}
        rowKey={(row) => row.id}
        empty="No machine is lent yet. One appears here as soon as you get its command."
        columns={columns}
      />
      {machines.length > 0 ? <StripLegend /> : null}
    </Card>
  );
}

function Name({ machine }: { machine: Machine }) {
  return (
    <span className={classes.name}>
      <strong title={nameOf(machine)} data-unnamed={machine.name === null || undefined}>
        {nameOf(machine)}
      </strong>
    </span>
  );
}

/** What it has, and what it serves with that now. */
function Serves({ machine }: { machine: Machine }) {
  return (
    <span className={classes.gpus}>
      {gpusOf(machine)}
      <small>{machine.replicas > 0 ? replicaCount(machine.replicas) : "idle"}</small>
    </span>
  );
}

/** "2 × A100 80GB PCIe", as it said when it joined. */
function gpusOf(machine: Machine): string {
  if (!machine.joined_at) return "–";
  const models = [...new Set(machine.gpus)];
  if (models.length === 0) return "no GPU";
  return models.map((model) => `${machine.gpus.filter((one) => one === model).length} × ${gpuName(model)}`).join(", ");
}

function lastSeen(machine: Machine, now: Date): string {
  return machine.seen_at ? seenAgo(now.getTime() - new Date(machine.seen_at).getTime()) : "never";
}
