/** Days as they are billed, in UTC, for charts with one step a day. */
import type { Line } from "./Chart";

const DAY_MS = 86_400_000;

/** "2026-11-15", the last so many, today included. */
export function lastDays(count: number): string[] {
  const today = Date.now();
  return Array.from({ length: count }, (_, index) => new Date(today - (count - 1 - index) * DAY_MS).toISOString().slice(0, 10));
}

/** One step a day; the last one is as wide as the others because it ends with its day. */
export function daySteps(dates: string[], label: string, amounts: [day: string, microusd: number][]): { times: number[]; lines: Line[] } {
  const sums = new Map<string, number>();
  for (const [day, microusd] of amounts) sums.set(day, (sums.get(day) ?? 0) + microusd);
  const times = dates.map((date) => Date.parse(`${date}T00:00:00Z`) / 1000);
  const values = dates.map((date) => (sums.get(date) ?? 0) / 1e6);
  return {
    times: [...times, (times.at(-1) ?? 0) + DAY_MS / 1000],
    lines: [{ label, color: "series-1", filled: true, stepped: true, values: [...values, values.at(-1) ?? 0] }],
  };
}

export function dayAndMonth(time: number): string {
  return new Date(time * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
}
