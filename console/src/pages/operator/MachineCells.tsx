import type { ReactNode } from "react";

import { Meter } from "@/components/Meter";
import { duration } from "@/components/times";
import { gpuName } from "@/containers/resources";
import { replicaCount } from "@/machines/machine";

import { type Listed, replicasOf } from "./machineList";
import classes from "./Machines.module.css";
import operator from "./Operator.module.css";
import type { Node } from "./queries";

const GIB = 2 ** 30;
const HANDOVERS: Record<Node["gpu_handover"], string> = { runtime: "NVIDIA runtime", cdi: "CDI", direct: "Direct", none: "" };
/** Between two looks at a machine. */
const SEEN_NOW_MS = 20_000;

/** And below it where it is, or whose. */
export function Name({ one, owner, more }: { one: Listed; owner?: string; more?: string }) {
  const { machine } = one;
  return (
    <span className={classes.name}>
      <strong title={one.name} data-unnamed={machine?.name === null || undefined}>
        {one.name}
      </strong>
      <span className={classes.under}>
        {owner ?? (machine ? machine.address : "Moorage runs here")}
      </span>
      {more ? <span className={classes.under}>{more}</span> : null}
    </span>
  );
}

export function PhoneLine({ one }: { one: Listed }) {
  return (
    <>
      <span className={classes.phone}>{replicaCount(replicasOf(one))}</span>
      {one.node && one.node.gpus.length > 0 ? <span className={classes.phone}>{gpusOf(one)}</span> : null}
    </>
  );
}

export function Gpus({ one }: { one: Listed }) {
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
export function gpusOf({ node, machine }: Listed): string {
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

export function Processors({ node }: { node: Node }) {
  const total = node.total.cpu_millis * node.cpu_overcommit;
  return (
    <Taken part={node.promised.cpu_millis / total}>
      {round(node.promised.cpu_millis / 1000)} of {round(total / 1000)}
    </Taken>
  );
}

export function Memory({ node }: { node: Node }) {
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

export function lastSeen({ node, machine }: Listed, now: Date): string {
  if (machine && !machine.seen_at) return "never";
  const ms = machine?.seen_at ? now.getTime() - new Date(machine.seen_at).getTime() : (node?.seen_s_ago ?? 0) * 1000;
  return ms < SEEN_NOW_MS ? "now" : `${duration(ms)} ago`;
}

function round(value: number): string {
  return (Math.round(value * 10) / 10).toLocaleString("en-US");
}
