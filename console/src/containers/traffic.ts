import type { Measured } from "./metrics/measured";

/** How many requests came, from their rate in each step. Where any came it is at least one. */
export function requestsIn({ series, stepS }: Pick<Measured, "series" | "stepS">): number {
  const all = (series["request_rate"] ?? []).reduce<number>((sum, rate) => sum + (rate ?? 0) * stepS, 0);
  return all > 0 ? Math.max(1, Math.round(all)) : 0;
}
