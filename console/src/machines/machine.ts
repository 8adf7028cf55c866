/** What is known of a machine that joined. Pure. */
import type { Schemas } from "@/api/client";
import { duration } from "@/components/times";

export type Machine = Schemas["MachineRead"];
export type JoinCommand = Schemas["MachineAdded"];

/** One that was added without a name has its host's once it joins. */
export function nameOf(machine: Machine): string {
  return machine.name ?? "Not named yet";
}

/** "1 replica", "12 replicas" */
export function replicaCount(count: number): string {
  return count === 1 ? "1 replica" : `${count.toLocaleString("en-US")} replicas`;
}

/** Between two looks at a machine. */
const SEEN_NOW_MS = 20_000;

/** "now", "5 h ago" */
export function seenAgo(ms: number): string {
  return ms < SEEN_NOW_MS ? "now" : `${duration(ms).replace(/ 0 (h|min)$/, "")} ago`;
}

/** It may join, answer or prove itself at any moment. */
export function isExpected(machine: Machine): boolean {
  if (machine.state === "verifying") return true;
  if (machine.state !== "joining") return false;
  return machine.joins_until === null || new Date(machine.joins_until) > new Date();
}

/** New replicas may be placed there. */
export function takesReplicas(machine: Machine): boolean {
  return machine.state === "active" || machine.state === "probation";
}

/** What was said about it last; null where nothing can be said yet. A lost one may be told what to be when it is back. */
export function intakeOf(machine: Machine): "open" | "cordoned" | "draining" | null {
  const state = machine.state === "lost" ? (machine.returns_as ?? "active") : machine.state;
  return INTAKES[state];
}

const INTAKES: Record<Machine["state"], "open" | "cordoned" | "draining" | null> = {
  joining: null,
  verifying: "open",
  probation: "open",
  active: "open",
  paused: "cordoned",
  draining: "draining",
  lost: "open",
  banned: null,
  removed: null,
};
