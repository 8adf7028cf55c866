import type { Values } from "@/components/chart/drawing";
import { clockTime } from "@/components/times";

import type { Measured } from "./measured";
import type { Autoscaling, Decision } from "./queries";

export interface Numbered {
  number: number;
  /** Seconds since 1970. */
  at: number;
  decision: Decision;
}

const MOST = 30;

/** Those in the range that changed the number, the oldest being 1; newest first. */
export function numbered(items: Decision[], [from, to]: [number, number]): Numbered[] {
  const inRange = items
    .map((decision) => ({ decision, at: Date.parse(decision.at) / 1000 }))
    .filter(({ at, decision }) => at >= from && at <= to && decision.replicas !== decision.replicas_before)
    .slice(0, MOST);
  return inRange.map((one, index) => ({ ...one, number: inRange.length - index }));
}

/** "3 → 4". */
export function change({ replicas_before: before, replicas }: Pick<Decision, "replicas_before" | "replicas">): string {
  return `${before} → ${replicas}`;
}

/** The reason in its sentences: what was seen, and what kept the number from being what that needs. */
export function sentences(reason: string): string[] {
  return reason.split(/(?<=\.)\s+(?=[A-Z])/).map((one) => one.replace(/\.$/, ""));
}

export function pinLabel({ number, decision }: Numbered): string {
  return `Decision ${number} at ${clockTime(decision.at)}: ${change(decision)}`;
}

/** How many were asked for at each time; unknown before the first decision that is known. */
export function wantedOver({ items, replicas }: Autoscaling, times: number[]): Values {
  if (items.length === 0) return times.map(() => replicas.desired);
  const oldestFirst = items.toReversed().map((one) => ({ ...one, at: Date.parse(one.at) / 1000 }));
  const before = oldestFirst[0]?.replicas_before ?? null;
  let index = 0;
  let wanted: number | null = before;
  return times.map((time) => {
    while (index < oldestFirst.length && oldestFirst[index]!.at <= time) wanted = oldestFirst[index++]!.replicas;
    return wanted;
  });
}

/** Demand in replicas: what is in flight, divided by what one is meant to have. Where it crosses, the number follows. */
export function demandOver({ series }: Measured, target: number): Values | null {
  return series["in_flight"]?.map((value) => (value === null ? null : value / target)) ?? null;
}
