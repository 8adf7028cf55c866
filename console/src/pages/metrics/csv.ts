import type { Measured } from "@/containers/metrics/queries";

/** A line for each step, a column for each series; what is not known is empty. */
export function csvOf({ times, series }: Measured): string {
  const names = Object.keys(series);
  const lines = times.map((time, index) =>
    [new Date(time * 1000).toISOString(), ...names.map((name) => series[name]?.[index] ?? "")].join(","),
  );
  return [["time", ...names].join(","), ...lines, ""].join("\r\n");
}
