/** What a container did, for its charts. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";

import { api, body, type Schemas } from "@/api/client";
import type { Values } from "@/components/chart/plot";

import type { Span } from "./range";

export type Autoscaling = Schemas["Autoscaling"];
export type Decision = Schemas["AutoscalingDecision"];

/** Response times and statuses come in steps of 10 s. */
const FINEST_S = 10;
/** What happened in the last seconds is not all known yet, and would look like a fall to zero. */
const SETTLED_AFTER_S = 20;
const LIVE_S = [5, 30] as const;
const POINTS = 360;
const DECISIONS = 200;

export interface Measured {
  stepS: number;
  /** Seconds since 1970 when each step begins. */
  times: number[];
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

export const metricsQuery = (containerId: string, span: Span) =>
  queryOptions({
    queryKey: ["containers", containerId, "metrics", span],
    queryFn: async () => {
      const to = span.until ?? Date.now();
      const from = to - span.seconds * 1000;
      const query = { from: new Date(from).toISOString(), to: new Date(to).toISOString(), step: FINEST_S };
      const params = { path: { container_id: containerId }, query };
      return measured(await body(api.GET("/api/v1/containers/{container_id}/metrics", { params })), from, to);
    },
    placeholderData: keepPreviousData,
    refetchInterval: liveInterval(span),
  });

export const autoscalingQuery = (containerId: string) =>
  queryOptions({
    queryKey: ["containers", containerId, "autoscaling"],
    queryFn: () =>
      body(
        api.GET("/api/v1/containers/{container_id}/autoscaling", {
          params: { path: { container_id: containerId }, query: { limit: DECISIONS } },
        }),
      ),
    refetchInterval: LIVE_S[0] * 1000,
  });

/** As often as a new point can be there. */
function liveInterval({ seconds, until }: Span): number | false {
  if (until !== null) return false;
  return Math.min(Math.max(seconds / POINTS, LIVE_S[0]), LIVE_S[1]) * 1000;
}

function measured(found: Schemas["Metrics"], from: number, to: number): Measured {
  const all = found.times.map((time) => Date.parse(time) / 1000);
  const settledUntil = Date.now() / 1000 - SETTLED_AFTER_S - Math.min(found.step_s, FINEST_S);
  const count = all.filter((time) => time <= settledUntil).length;
  const settled = (values: Values | undefined) => values?.slice(0, count) ?? [];
  return {
    stepS: found.step_s,
    times: all.slice(0, count),
    range: [Math.max(from / 1000, all[0] ?? 0), Math.min(to / 1000, Date.now() / 1000)],
    series: Object.fromEntries(Object.entries(found.series).map(([name, values]) => [name, settled(values)])),
    replicas: found.replicas.map(({ replica_id, series, gpus }) => ({
      id: replica_id,
      cpuMillis: settled(series["cpu_millis"]),
      memoryBytes: settled(series["memory_bytes"]),
      gpuPercent: together(gpus.map((gpu) => settled(gpu.series["utilization_percent"])), gpus.length),
      gpuMemoryBytes: together(gpus.map((gpu) => settled(gpu.series["memory_bytes"])), 1),
    })),
  };
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
