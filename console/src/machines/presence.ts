/** How a machine's last 30 days are drawn, and what several are worth together. Pure. */
import { dayAndMonth } from "@/components/days";
import { duration } from "@/components/times";

import type { Machine } from "./machine";

export type Day = NonNullable<Machine["days"]>[number];
export type Mark = "there" | "away" | "lost" | "none";

/** So much of a day may be missing where it was there all day: it was switched on again, or a state was noted late. */
const ALL_DAY = 0.99;

export function markOf({ there_s: there, away_s: away, lost_s: lost }: Day): Mark {
  const counted = there + away + lost;
  if (counted === 0) return "none";
  if (lost > 0) return "lost";
  return there / counted >= ALL_DAY ? "there" : "away";
}

/** "12 Nov: there 21 h 0 min, away 3 h 0 min" */
export function dayInWords(day: Day): string {
  const parts = [
    day.there_s > 0 ? `there ${duration(day.there_s * 1000)}` : null,
    day.away_s > 0 ? `away ${duration(day.away_s * 1000)}` : null,
    day.lost_s > 0 ? `lost ${duration(day.lost_s * 1000)}` : null,
  ].filter(Boolean);
  const date = dayAndMonth(Date.parse(`${day.day}T00:00:00Z`) / 1000);
  return `${date}: ${parts.length > 0 ? parts.join(", ") : "not counted on"}`;
}

/** "28 days there, 1 away, 1 with a loss" */
export function stripInWords(days: Day[]): string {
  const count = (mark: Mark) => days.filter((day) => markOf(day) === mark).length;
  const words = [
    `${count("there")} there all day`,
    `${count("away")} away, announced`,
    `${count("lost")} with a loss`,
    `${count("none")} not joined yet`,
  ];
  return `Last ${days.length} days: ${words.join(", ")}`;
}

const MEASURED_FROM_S = 24 * 3600;

/** Before a day has been looked at, the number is what every machine begins with and says nothing of this one. */
export function isMeasured({ joined_at: joined, reliability, days }: Pick<Machine, "joined_at" | "reliability" | "days">): boolean {
  const looked = (days ?? []).reduce((sum, day) => sum + day.there_s + day.lost_s, 0);
  return joined !== null && reliability !== null && looked >= MEASURED_FROM_S;
}

/** "99.8 %"; below a whole one only what was there all the time. */
export function percent(reliability: number): string {
  return `${(Math.floor(reliability * 1000 + 1e-6) / 10).toFixed(1)} %`;
}

/** Of several machines, each as heavy as the time that it was there; null where none is measured. */
export function overallReliability(machines: Machine[]): number | null {
  const lent = machines.filter(isMeasured);
  const weights = lent.map((one) => (one.days ?? []).reduce((sum, day) => sum + day.there_s, 0));
  const total = weights.reduce((sum, one) => sum + one, 0);
  if (lent.length === 0) return null;
  // All of them were lost all the time: each counts the same.
  const shares = total > 0 ? weights.map((one) => one / total) : weights.map(() => 1 / lent.length);
  return lent.reduce((sum, one, at) => sum + (one.reliability ?? 0) * (shares[at] ?? 0), 0);
}

const TIERS: Record<NonNullable<Machine["tier"]>, string> = {
  probation: "Probation",
  standard: "Standard",
  trusted: "Trusted",
};

/** A dash until it has proven what it claims: it is on no tier before. */
export function tierOf({ tier, joined_at: joined, state }: Machine): string {
  return tier && joined && state !== "verifying" ? TIERS[tier] : "–";
}
