import type { ReactNode } from "react";

import { Meter } from "@/components/Meter";
import { gpuName } from "@/containers/resources";
import { seenAgo } from "@/machines/machine";

import { isSilent, type Listed } from "./machineList";
import classes from "./Machines.module.css";
import operator from "./Operator.module.css";
import type { Node } from "./queries";

const GIB = 2 ** 30;
const HANDOVERS: Record<Node["gpu_handover"], string> = { runtime: "NVIDIA runtime", cdi: "CDI", direct: "Direct", none: "" };

/** And below it where it is, or whose; Moorage itself runs on one that did not join. */
export function Name({ one, owner, more }: { one: Listed; owner?: string; more?: string }) {
  const { machine } = one;
  return (
    <span className={classes.name}>
      <strong title={one.name} data-unnamed={machine?.name === null || undefined}>
        {one.name}
      </strong>
      {machine ? <span className={classes.under}>{owner ?? machine.address}</span> : <span className={classes.badge}>Control plane</span>}
      {more ? <span className={classes.under}>{more}</span> : null}
    </span>
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

/** "2 of 8 L40S, 0 of 1 L4 in use"; of one that is not heard, or not described yet, what it has. */
export function gpusOf(one: Listed): string {
  const { node, machine } = one;
  const models = [...new Set(node ? node.gpus.map((gpu) => gpu.model) : (machine?.gpus ?? []))];
  if (!node && !machine?.joined_at) return "–";
  if (models.length === 0) return "no GPU";
  if (!node) return models.map((model) => `${machine?.gpus.filter((gpu) => gpu === model).length} ${gpuName(model)}`).join(", ");
  if (isSilent(one)) return models.map((model) => `${node.gpus.filter((gpu) => gpu.model === model).length} ${gpuName(model)}`).join(", ");
  const counts = models.map((model) => {
    const gpus = node.gpus.filter((gpu) => gpu.model === model);
    return `${gpus.filter((gpu) => gpu.in_use).length} of ${gpus.length} ${gpuName(model)}`;
  });
  return `${counts.join(", ")} in use`;
}

export function Processors({ one }: { one: Listed }) {
  const { node } = one;
  if (!node || isSilent(one)) return "–";
  const total = node.total.cpu_millis * node.cpu_overcommit;
  return (
    <Taken part={node.promised.cpu_millis / total}>
      {round(node.promised.cpu_millis / 1000)} of {round(total / 1000)}
    </Taken>
  );
}

export function Memory({ one }: { one: Listed }) {
  const { node } = one;
  if (!node || isSilent(one)) return "–";
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
  return seenAgo(ms);
}

function round(value: number): string {
  return (Math.round(value * 10) / 10).toLocaleString("en-US");
}
