const HOUR_MS = 3_600_000;

export interface Lasting {
  words: string;
  /** Replicas of the new container. */
  count: number;
  /** Milliseconds since 1970; null: nothing is spent. */
  until: number | null;
  /** Of the longest of them. */
  fraction: number;
}

interface Spending {
  balance: number;
  /** Each hour, for what runs already. */
  others: number;
  /** When it ends with those alone, as the API says: it knows which hours are paid for. */
  runsOut: number | null;
  each: number;
  min: number;
  max: number;
}

/** How long the credit lasts without the new container, with as many replicas as it begins with, and with all it may have. */
export function lasting({ balance, others, runsOut, each, min, max }: Spending, now: number): Lasting[] {
  const spendable = runsOut === null ? balance : (others * (runsOut - now)) / HOUR_MS;
  const cases: [string, number][] = [
    ["Today's containers only", 0],
    [`With this one, ${replicas(min)}`, min],
    ...(max > min ? ([[`With this one, ${replicas(max)}`, max]] as [string, number][]) : []),
  ];
  const hours = cases.map(([, count]) => {
    const rate = others + each * count;
    return rate > 0 ? Math.max(0, spendable) / rate : null;
  });
  const longest = Math.max(...hours.map((one) => one ?? 0), Number.MIN_VALUE);
  return cases.map(([words, count], at) => {
    const left = hours[at] ?? null;
    return { words, count, until: left === null ? null : now + left * HOUR_MS, fraction: left === null ? 1 : left / longest };
  });
}

export function replicas(count: number): string {
  return count === 1 ? "1 replica" : `${count} replicas`;
}
