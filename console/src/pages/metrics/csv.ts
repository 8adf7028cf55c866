import type { Values } from "@/components/chart/drawing";
import type { Measured } from "@/containers/metrics/measured";

/** A line for each step, a column for each series; what is not known is empty. */
export function csvOf({ times, settled, series, replicas }: Measured): string {
  const columns: [string, Values | null][] = [
    ...Object.entries(series),
    ...replicas.flatMap((one): [string, Values | null][] => [
      [`${one.id} cpu_millis`, one.cpuMillis],
      [`${one.id} memory_bytes`, one.memoryBytes],
      [`${one.id} gpu_percent`, one.gpuPercent],
      [`${one.id} gpu_memory_bytes`, one.gpuMemoryBytes],
    ]),
  ];
  const known = columns.filter(([, values]) => values?.some((value) => value !== null));
  const lines = times.slice(0, settled).map((time, index) =>
    [new Date(time * 1000).toISOString(), ...known.map(([, values]) => values?.[index] ?? "")].join(","),
  );
  return [["time", ...known.map(([name]) => name)].join(","), ...lines, ""].join("\r\n");
}
