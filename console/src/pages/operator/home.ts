/** What the operator's home says of machines, health and the month. Pure. */
import { gpuName } from "@/containers/resources";

import type { Node } from "./queries";

const DAY_MS = 86_400_000;

export interface MachineGpus {
  /** "L40S", "mixed", or a dash where there is none. */
  model: string;
  used: number;
  total: number;
}

export function machineGpus(node: Pick<Node, "gpus"> | null): MachineGpus {
  const gpus = node?.gpus ?? [];
  const models = [...new Set(gpus.map((gpu) => gpu.model))];
  const model = models.length === 0 ? "–" : models.length === 1 ? gpuName(models[0]!) : "mixed";
  return { model, used: gpus.filter((gpu) => gpu.in_use).length, total: gpus.length };
}

export function gpusInUse(nodes: Pick<Node, "gpus">[]): { used: number; total: number } {
  const each = nodes.map(machineGpus);
  return { used: each.reduce((sum, one) => sum + one.used, 0), total: each.reduce((sum, one) => sum + one.total, 0) };
}

/** As it is billed, in UTC: every day of the month that has one, up to today as what is asked for. */
export function monthSoFar(now: Date): { dates: string[]; first: string; last: string; name: string } {
  const begin = Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1);
  const end = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1);
  const dates = Array.from({ length: Math.round((end - begin) / DAY_MS) }, (_, index) =>
    new Date(begin + index * DAY_MS).toISOString().slice(0, 10),
  );
  const name = new Date(begin).toLocaleDateString("en-GB", { month: "long", timeZone: "UTC" });
  return { dates, first: dates[0]!, last: now.toISOString().slice(0, 10), name };
}
