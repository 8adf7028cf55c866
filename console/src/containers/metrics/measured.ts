/** What the API measured, as the charts take it. */
import type { Schemas } from "@/api/client";
import type { Values } from "@/components/chart/drawing";

/** What happened in the last seconds is not all known yet, and would look like a fall to zero. */
const SETTLED_AFTER_S = 20;
const KNOWN_AT_ONCE = new Set(["replica_count"]);

export interface Measured {
  stepS: number;
  /** Seconds since 1970 when each step begins. */
  times: number[];
  /** How many of these steps are known entirely; of those after them only the replicas are. */
  settled: number;
  range: [number, number];
  series: Record<string, Values>;
  replicas: Used[];
}

/** What a replica used; of several GPUs, all of them together. */
export interface Used {
  id: string;
  cpuMillis: Values;
  memoryBytes: Values;
  gpuPercent: Values | null;
  gpuMemoryBytes: Values | null;
}

export function measured(found: Schemas["Metrics"], from: number, to: number): Measured {
  const times = found.times.map((time) => Date.parse(time) / 1000);
  // A step that is not over counts once no more than a twentieth of it can be missing.
  const settledUntil = Date.now() / 1000 - SETTLED_AFTER_S - Math.min(found.step_s, 20 * SETTLED_AFTER_S);
  const settled = times.filter((time) => time <= settledUntil).length;
  const known = (values: Values | undefined): Values => values?.map((value, index) => (index < settled ? value : null)) ?? [];
  return {
    stepS: found.step_s,
    times,
    settled,
    range: [Math.max(from / 1000, times[0] ?? 0), Math.min(to / 1000, Date.now() / 1000)],
    series: Object.fromEntries(
      Object.entries(found.series).map(([name, values]) => [name, KNOWN_AT_ONCE.has(name) ? values : known(values)]),
    ),
    replicas: found.replicas.map(({ replica_id, series, gpus }) => ({
      id: replica_id,
      cpuMillis: known(series["cpu_millis"]),
      memoryBytes: known(series["memory_bytes"]),
      gpuPercent: together(gpus.map((gpu) => known(gpu.series["utilization_percent"])), gpus.length),
      gpuMemoryBytes: together(gpus.map((gpu) => known(gpu.series["memory_bytes"])), 1),
    })),
  };
}

/** The newest value that is known. */
export function latestOf(values: Values | undefined): number | null {
  return values?.findLast((value) => value !== null) ?? null;
}

/** The sum of several series, divided: by their number it is their mean. */
function together(several: Values[], divisor: number): Values | null {
  const [first] = several;
  if (!first) return null;
  return first.map((_, index) => {
    const known = several.map((values) => values[index]).filter((value) => typeof value === "number");
    return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / divisor;
  });
}
