import type { Entry } from "./queries";

/** One line of the list: an entry, or the hours that one container bought on one day. */
export interface Group {
  id: string;
  at: string;
  words: string;
  /** Of an hour: whose it is. */
  project: string | null;
  amount: number;
  /** After the newest of them. */
  balance: number | null;
}

/** Newest first, as the entries are. `dayOf` says which day a moment is of, where the reader is. */
export function grouped(entries: Entry[], dayOf: (iso: string) => string): Group[] {
  const groups = new Map<string, { newest: Entry; amount: number; hours: number }>();
  for (const entry of entries) {
    const { container_id: container, instance_type: type } = entry.details;
    const key = entry.kind === "usage" ? JSON.stringify([container, type, dayOf(entry.at)]) : entry.id;
    const group = groups.get(key) ?? { newest: entry, amount: 0, hours: 0 };
    groups.set(key, { ...group, amount: group.amount + entry.amount_microusd, hours: group.hours + 1 });
  }
  return [...groups.values()].map(({ newest, amount, hours }) => ({
    id: newest.id,
    at: newest.at,
    words: wordsOf(newest, hours),
    project: newest.project_name,
    amount,
    balance: newest.balance_after_microusd,
  }));
}

function wordsOf(entry: Entry, hours: number): string {
  if (entry.kind !== "usage" || entry.container_name === null) return entry.description;
  const amount = hours === 1 ? "1 hour" : `${hours} hours`;
  return `${entry.container_name}: ${amount} of ${String(entry.details["instance_type"])}`;
}
