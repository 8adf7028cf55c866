import { useSuspenseQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { Copy } from "@/components/Copy";
import { Meter } from "@/components/Meter";
import { Card, Page } from "@/components/Page";
import { Table } from "@/components/Table";
import { duration } from "@/components/times";
import { gpuName } from "@/containers/resources";

import classes from "./Operator.module.css";
import { type Machine, machinesQuery } from "./queries";

const GIB = 2 ** 30;
const HANDOVERS = { runtime: "NVIDIA runtime", cdi: "CDI", direct: "Direct", none: "–" };

/** What there is, what is promised to replicas, and what is free. */
export function Machines() {
  const { data: machines } = useSuspenseQuery(machinesQuery);
  const overcommit = machines[0]?.cpu_overcommit ?? 1;
  return (
    <Page title="Machines" hint={overcommit > 1 ? `Processors are promised ${overcommit} times over.` : undefined}>
      <Card flush label="Machines">
        <Table
          rows={machines}
          rowKey={(row) => row.name}
          empty="No machine reported yet. One appears as soon as the controller has seen its engine."
          phoneLine={(row) => (row.gpus.length === 0 ? `no GPU · ${memoryOf(row)}` : gpusOf(row))}
          columns={[
            { head: "Name", cell: (row) => <span className={classes.name}>{row.name}</span> },
            { head: "State", cell: (row) => <State machine={row} /> },
            { head: "Kind", wide: true, cell: (row) => (row.infrastructure === "community" ? "Community" : "Operator") },
            { head: "GPUs", wide: true, cell: (row) => gpusOf(row) },
            { head: "Driver", wide: true, cell: (row) => row.gpu_driver ?? "none" },
            { head: "Hand-over", wide: true, cell: (row) => HANDOVERS[row.gpu_handover] },
            {
              head: "vCPU promised",
              wide: true,
              cell: (row) => (
                <Taken part={row.promised.cpu_millis / (row.total.cpu_millis * row.cpu_overcommit)}>
                  {round(row.promised.cpu_millis / 1000)} of {round((row.total.cpu_millis * row.cpu_overcommit) / 1000)}
                </Taken>
              ),
            },
            {
              head: "Memory promised",
              wide: true,
              cell: (row) => (
                <Taken part={row.promised.memory_bytes / row.total.memory_bytes}>{memoryOf(row)}</Taken>
              ),
            },
          ]}
        />
      </Card>
      {machines.map((machine) => (
        <About key={machine.name} machine={machine} />
      ))}
    </Page>
  );
}

/** How its GPUs get into containers, and what is wrong with it: each with the command that helps. */
function About({ machine }: { machine: Machine }) {
  const broken = unusable(machine);
  if (!machine.message && machine.findings.length === 0 && broken.length === 0) return null;
  const worstFirst = [...machine.findings].sort((one, other) => Number(other.broken) - Number(one.broken));
  return (
    <Card title={machine.name}>
      {machine.message ? <p className={classes.quiet}>{machine.message}</p> : null}
      {broken.map((gpu) => (
        <p key={gpu.device_id} className={classes.quiet}>
          <span data-tone="bad">{`${gpuName(gpu.model)} ${gpu.device_id}: ${gpu.unusable_because}.`}</span>
        </p>
      ))}
      <ul className={classes.findings}>
        {worstFirst.map((finding) => (
          <li key={finding.code + finding.message}>
            <span data-tone={finding.broken ? "bad" : "warn"}>{finding.broken ? "Broken" : "At risk"}</span>
            <span>{finding.message}</span>
            <code>{finding.command}</code>
            <Copy text={finding.command} label="Copy the command" />
          </li>
        ))}
      </ul>
    </Card>
  );
}

function State({ machine }: { machine: Machine }) {
  if (machine.state === "silent") return <span data-tone="bad">Silent for {duration(machine.seen_s_ago * 1000)}</span>;
  if (machine.state === "draining") return <span data-tone="warn">Draining</span>;
  if (machine.state === "cordoned") return <span data-tone="warn">Closed for new replicas</span>;
  const broken = unusable(machine).length;
  if (broken > 0) return <span data-tone="warn">{`${broken} GPU${broken > 1 ? "s" : ""} out of use`}</span>;
  return <span data-tone="ok">Ready</span>;
}

/** "2 of 8 L40S, 0 of 1 L4 in use" */
function gpusOf(machine: Machine): string {
  const models = [...new Set(machine.gpus.map((gpu) => gpu.model))];
  if (models.length === 0) return "none";
  const counts = models.map((model) => {
    const gpus = machine.gpus.filter((gpu) => gpu.model === model);
    return `${gpus.filter((gpu) => gpu.in_use).length} of ${gpus.length} ${gpuName(model)}`;
  });
  return `${counts.join(", ")} in use`;
}

function memoryOf(machine: Machine): string {
  return `${round(machine.promised.memory_bytes / GIB)} of ${round(machine.total.memory_bytes / GIB)} GiB`;
}

function unusable(machine: Machine) {
  return machine.gpus.filter((gpu) => gpu.unusable_because);
}

function Taken({ part, children }: { part: number; children: ReactNode }) {
  return (
    <span className={classes.taken}>
      <span>{children}</span>
      <Meter part={part} tone={part > 0.9 ? "warn" : undefined} />
    </span>
  );
}

function round(value: number): string {
  return (Math.round(value * 10) / 10).toLocaleString("en-US");
}
