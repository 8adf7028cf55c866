/** Which charts there are below the replicas, made of the series that the API has for this range. */
import type { Line, Values } from "@/components/chart/drawing";
import { tick } from "@/components/chart/ticks";
import { binaryUnit } from "@/components/sizes";
import { latestOf, type Measured, type Used } from "@/containers/metrics/measured";
import { shortId } from "@/containers/resources";

/** Where the values of the axis are so far apart, all of them are seconds. */
const IN_SECONDS_FROM_MS = 200;

export interface PanelOf {
  title: string;
  unit?: string;
  now?: string;
  lines: Line[];
  /** Where they are others than those of the page. */
  times?: number[];
  axis?: (value: number, step: number) => string;
  exact?: (value: number) => string;
  nothing?: string;
  /** A line for each replica, however many there are. */
  ofReplicas?: boolean;
  /** The most that a replica may use. */
  levels?: { value: number; label: string; below?: boolean }[];
}

/** What a replica of the container's instance type may use; more is held back, or ends it. */
export interface Limits {
  cpuMillis: number;
  memoryBytes: number;
}

const BARS = 60;
const COLORS = ["series-1", "series-2", "series-3", "series-4", "series-5"] as const;
const NO_REQUESTS = "No request ended in this time.";

/** Of the limit, from where on a line of it is drawn: far above what is used it would only flatten that. */
const NEAR = 0.2;

export function panelsOf(measured: Measured, limits: Limits | null = null): PanelOf[] {
  const { series } = measured;
  const panels: PanelOf[] = [];
  if (series["request_rate"]) panels.push(requestRate(series["request_rate"]));
  if (series["response_time_p50_ms"]) panels.push(responseTime(measured));
  if (series["responses_2xx"]) panels.push(statuses(measured));
  if (series["in_flight"]) panels.push(inFlight(measured));
  return [...panels, ...used(measured, limits)];
}

function requestRate(values: Values): PanelOf {
  return {
    title: "Request rate",
    unit: "per second",
    now: figure(latestOf(values)),
    lines: [{ label: "requests/s", color: "series-1", values, filled: true }],
    exact: (value) => figure(value) ?? "",
  };
}

function responseTime({ series }: Measured): PanelOf {
  const line = (name: "p50" | "p95" | "p99"): Line => ({
    label: name,
    color: name,
    values: series[`response_time_${name}_ms`] ?? [],
    named: true,
  });
  return {
    title: "Response time",
    lines: [line("p50"), line("p95"), line("p99")],
    axis: (value, step) => {
      if (value === 0) return "0";
      return step >= IN_SECONDS_FROM_MS ? `${tick(value / 1000, step / 1000)} s` : `${tick(value, step)} ms`;
    },
    exact: (value) => `${Math.round(value).toLocaleString("en-US")} ms`,
    nothing: NO_REQUESTS,
  };
}

/** Few bars that can be told apart, each the mean of its steps. */
function statuses({ series, times, stepS }: Measured): PanelOf {
  const each = Math.max(1, Math.ceil(times.length / BARS));
  const bar = (label: string, color: Line["color"], name: string): Line => ({
    label,
    color,
    values: meansOf(series[name] ?? [], each).map((value) => (value === null ? null : value / stepS)),
    stacked: true,
  });
  const lines = [
    bar("2xx", "series-2", "responses_2xx"),
    bar("3xx", "series-4", "responses_3xx"),
    bar("4xx", "series-3", "responses_4xx"),
    bar("5xx", "bad", "responses_5xx"),
    bar("no answer", "series-5", "responses_none"),
  ];
  const isSeen = (line: Line) => line.values.some((value) => value !== null && value > 0);
  return {
    title: "Status classes",
    unit: "per second",
    times: times.filter((_, index) => index % each === 0),
    // The usual ones are always named; the others where there are some.
    lines: lines.filter((line) => ["2xx", "4xx", "5xx"].includes(line.label) || isSeen(line)),
    exact: (value) => figure(value) ?? "",
    nothing: NO_REQUESTS,
  };
}

function inFlight({ series }: Measured): PanelOf {
  return {
    title: "In flight and queue",
    unit: "requests",
    lines: [
      { label: "in flight", color: "series-1", values: series["in_flight"] ?? [], filled: true },
      { label: "queued", color: "series-3", values: series["queued"] ?? [] },
    ],
    exact: (value) => figure(value) ?? "",
  };
}

/** Its name, and what a value is divided by to be in it. */
type Unit = [name: string, divisor: number];

/** A line for each replica. */
function used({ replicas }: Measured, limits: Limits | null): PanelOf[] {
  const panel = (title: string, unitOf: (most: number) => Unit, pick: (one: Used) => Values | null, limit?: number): PanelOf | null => {
    const known = replicas.filter((one) => pick(one)?.some((value) => value !== null));
    if (known.length === 0) return null;
    const most = Math.max(...known.flatMap((one) => pick(one) ?? []).map((value) => value ?? 0));
    const isNear = limit !== undefined && most >= limit * NEAR;
    const [unit, divisor] = unitOf(isNear ? limit : most);
    const lines = known.map((one, index) => ({
      label: shortId(one.id),
      color: COLORS[index % COLORS.length] ?? "series-5",
      values: (pick(one) ?? []).map((value) => (value === null ? null : value / divisor)),
    }));
    const exact = (value: number) => `${figure(value)} ${unit}`;
    if (limit === undefined) return { title, unit, lines, exact, ofReplicas: true };
    const [limitUnit, limitDivisor] = unitOf(limit);
    const words = `${figure(limit / limitDivisor)} ${limitUnit}`;
    const levels = isNear ? [{ value: limit / divisor, label: `limit ${words}`, below: true }] : [];
    return { title, unit: isNear ? unit : `${unit}, of ${words}`, lines, exact, ofReplicas: true, levels };
  };
  return [
    panel("CPU", () => ["vCPU", 1000], (one) => one.cpuMillis, limits?.cpuMillis),
    panel("Memory", binaryUnit, (one) => one.memoryBytes, limits?.memoryBytes),
    panel("GPU", () => ["%", 1], (one) => one.gpuPercent),
    panel("GPU memory", binaryUnit, (one) => one.gpuMemoryBytes),
  ].filter((one) => one !== null);
}

function meansOf(values: Values, each: number): Values {
  const means: Values = [];
  for (let at = 0; at < values.length; at += each) {
    const known = values.slice(at, at + each).filter((value) => value !== null);
    means.push(known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length);
  }
  return means;
}

function figure(value: number | null | undefined): string | undefined {
  if (typeof value !== "number") return undefined;
  // What is small is not nothing.
  if (value < 0.1) return value.toLocaleString("en-US", { maximumSignificantDigits: 2 });
  return value.toLocaleString("en-US", { maximumFractionDigits: value < 10 ? 2 : value < 100 ? 1 : 0 });
}
