/** Days as they are billed, in UTC, for charts with one bar a day. */
const DAY_MS = 86_400_000;

/** "2026-11-15", the last so many, today included. */
export function lastDays(count: number): string[] {
  const today = Date.now();
  return Array.from({ length: count }, (_, index) => new Date(today - (count - 1 - index) * DAY_MS).toISOString().slice(0, 10));
}

/** Dollars on each of the dates. */
export function byDay(dates: string[], amounts: { day: string; microusd: number }[]): number[] {
  const sums = new Map<string, number>();
  for (const { day, microusd } of amounts) sums.set(day, (sums.get(day) ?? 0) + microusd);
  return dates.map((date) => (sums.get(date) ?? 0) / 1e6);
}

export function dayAndMonth(time: number): string {
  return new Date(time * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
}
