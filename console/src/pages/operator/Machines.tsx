import { Button } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { type ReactNode, useState } from "react";

import { Meter } from "@/components/Meter";
import { Card, Page } from "@/components/Page";
import { Empty } from "@/components/Patterns";
import { Table } from "@/components/Table";
import { duration } from "@/components/times";
import { useNow } from "@/components/useNow";
import { gpuName } from "@/containers/resources";

import { AboutNode } from "./AboutNode";
import { AddMachine } from "./AddMachine";
import { MachineActions } from "./MachineActions";
import { MachineCondition } from "./MachineCondition";
import { conditionOf, type Listed, listed, replicaCount, replicasOf } from "./machineList";
import classes from "./Machines.module.css";
import operator from "./Operator.module.css";
import { machinesQuery, type Node, nodesQuery } from "./queries";
import { TunnelNotice } from "./TunnelNotice";

const GIB = 2 ** 30;
const HANDOVERS: Record<Node["gpu_handover"], string> = { runtime: "NVIDIA runtime", cdi: "CDI", direct: "Direct", none: "" };
/** Between two looks at a machine. */
const SEEN_NOW_MS = 20_000;

/** The installation's own machine and those that joined: how each is, what is promised there, and what can be said about it. */
export function Machines() {
  const { data: nodes } = useSuspenseQuery(nodesQuery);
  const { data: machines } = useSuspenseQuery(machinesQuery);
  const [adding, setAdding] = useState(false);
  const now = useNow(5_000);
  const all = listed(nodes, machines);
  const overcommit = nodes[0]?.cpu_overcommit ?? 1;
  const add = (
    <Button leftSection={<Plus size={16} strokeWidth={1.5} />} onClick={() => setAdding(true)}>
      Add a machine
    </Button>
  );
  return (
    <Page
      title="Machines"
      hint={overcommit > 1 ? `Processors are promised ${overcommit} times over.` : undefined}
      actions={machines.length > 0 ? add : undefined}
    >
      <TunnelNotice />
      <Card flush label="Machines">
        <Table
          rows={all}
          rowKey={(row) => row.key}
          empty="No machine reported yet. One appears as soon as the controller has seen its engine."
          phoneLine={(row) => <PhoneLine one={row} />}
          columns={[
            { head: "Name", cell: (row) => <Name one={row} /> },
            { head: "State", cell: (row) => <MachineCondition condition={conditionOf(row, now)} now={now} /> },
            { head: "GPUs", wide: true, cell: (row) => <Gpus one={row} /> },
            { head: "vCPU promised", wider: true, cell: (row) => (row.node ? <Processors node={row.node} /> : "–") },
            { head: "Memory promised", wider: true, cell: (row) => (row.node ? <Memory node={row.node} /> : "–") },
            { head: "Replicas", right: true, wide: true, cell: (row) => replicasOf(row).toLocaleString("en-US") },
            { head: "Last seen", wider: true, cell: (row) => lastSeen(row, now) },
            { head: "Actions", right: true, cell: (row) => <MachineActions one={row} all={all} /> },
          ]}
        />
      </Card>
      {machines.length === 0 ? (
        <Card flush label="More machines">
          <Empty action={add} command="moor machines add">
            Containers run on this machine alone. Others join by one command each: servers with Debian 12 or newer, or Ubuntu
            24.04 or newer, also behind a router.
          </Empty>
        </Card>
      ) : null}
      {all.map((one) => (one.node ? <AboutNode key={one.key} node={one.node} /> : null))}
      {adding ? <AddMachine close={() => setAdding(false)} /> : null}
    </Page>
  );
}

function Name({ one }: { one: Listed }) {
  const { node, machine } = one;
  return (
    <span className={classes.name}>
      <strong title={one.name} data-unnamed={machine?.name === null || undefined}>
        {one.name}
      </strong>
      <span className={classes.under}>
        {machine ? machine.address : "Moorage runs here"}
        {node?.infrastructure === "community" ? " · community" : ""}
      </span>
    </span>
  );
}

function PhoneLine({ one }: { one: Listed }) {
  return (
    <>
      <span className={classes.phone}>{replicaCount(replicasOf(one))}</span>
      {one.node && one.node.gpus.length > 0 ? <span className={classes.phone}>{gpusOf(one)}</span> : null}
    </>
  );
}

function Gpus({ one }: { one: Listed }) {
  return (
    <span className={classes.gpus}>
      <span>{gpusOf(one)}</span>
      {one.node?.gpu_driver ? (
        <span className={classes.under}>
          Driver {one.node.gpu_driver}
          {one.node.gpu_handover === "none" ? "" : ` · ${HANDOVERS[one.node.gpu_handover]}`}
        </span>
      ) : null}
    </span>
  );
}

/** "2 of 8 L40S, 0 of 1 L4 in use"; before its engine has described it, what it said when it joined. */
function gpusOf({ node, machine }: Listed): string {
  const models = [...new Set(node ? node.gpus.map((gpu) => gpu.model) : (machine?.gpus ?? []))];
  if (!node && !machine?.joined_at) return "–";
  if (models.length === 0) return "no GPU";
  if (!node) return models.map((model) => `${machine?.gpus.filter((one) => one === model).length} ${gpuName(model)}`).join(", ");
  const counts = models.map((model) => {
    const gpus = node.gpus.filter((gpu) => gpu.model === model);
    return `${gpus.filter((gpu) => gpu.in_use).length} of ${gpus.length} ${gpuName(model)}`;
  });
  return `${counts.join(", ")} in use`;
}

function Processors({ node }: { node: Node }) {
  const total = node.total.cpu_millis * node.cpu_overcommit;
  return (
    <Taken part={node.promised.cpu_millis / total}>
      {round(node.promised.cpu_millis / 1000)} of {round(total / 1000)}
    </Taken>
  );
}

function Memory({ node }: { node: Node }) {
  return (
    <Taken part={node.promised.memory_bytes / node.total.memory_bytes}>
      {round(node.promised.memory_bytes / GIB)} of {round(node.total.memory_bytes / GIB)} GiB
    </Taken>
  );
}

function Taken({ part, children }: { part: number; children: ReactNode }) {
  return (
    <span className={operator.taken}>
      <span>{children}</span>
      <Meter part={part} tone={part > 0.9 ? "warn" : undefined} />
    </span>
  );
}

function lastSeen({ node, machine }: Listed, now: Date): string {
  if (machine && !machine.seen_at) return "never";
  const ms = machine?.seen_at ? now.getTime() - new Date(machine.seen_at).getTime() : (node?.seen_s_ago ?? 0) * 1000;
  return ms < SEEN_NOW_MS ? "now" : `${duration(ms)} ago`;
}

function round(value: number): string {
  return (Math.round(value * 10) / 10).toLocaleString("en-US");
}
