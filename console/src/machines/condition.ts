/** How a machine that joined is: a look, a word and a sentence. Pure. */
import { shortTime } from "@/components/times";

import type { Machine } from "./machine";

export type Look =
  | "active"
  | "probation"
  | "verifying"
  | "paused"
  | "draining"
  | "joining"
  | "lost"
  | "banned"
  | "attention";

export interface Condition {
  look: Look;
  word: string;
  /** Whose word it was, where that is to be said: "by the operator". */
  by?: string | undefined;
  since: string | null;
  sentence: string;
}

const LOOKS: Record<Machine["state"], { look: Look; word: string }> = {
  joining: { look: "joining", word: "Joining" },
  verifying: { look: "verifying", word: "Verifying" },
  probation: { look: "probation", word: "Probation" },
  active: { look: "active", word: "Active" },
  paused: { look: "paused", word: "Paused" },
  draining: { look: "draining", word: "Draining" },
  lost: { look: "lost", word: "Lost" },
  banned: { look: "banned", word: "Banned" },
  removed: { look: "banned", word: "Removed" },
};

const COUNTED: Record<Look, string> = {
  active: "active",
  probation: "on probation",
  verifying: "verifying",
  joining: "joining",
  paused: "paused",
  draining: "draining",
  attention: "needing attention",
  lost: "lost",
  banned: "banned",
};

/** "4 active, 1 draining, 1 lost": all of them, each once. */
export function counted(looks: Look[]): string {
  return (Object.keys(COUNTED) as Look[])
    .map((look) => ({ look, count: looks.filter((one) => one === look).length }))
    .filter(({ count }) => count > 0)
    .map(({ look, count }) => `${count} ${COUNTED[look]}`)
    .join(", ");
}

/** `you`: who reads it. */
export function joinedCondition(machine: Machine, you: "owner" | "operator", now: Date): Condition {
  const { look, word } = LOOKS[machine.state];
  if (machine.state === "joining") return { look, word, since: null, sentence: joiningSentence(machine, now) };
  return { look, word, by: byWhom(machine, you), since: machine.state_since, sentence: said(machine, now) };
}

function byWhom(machine: Machine, you: "owner" | "operator"): string | undefined {
  const { state, stopped_by: who } = machine;
  if (who === null || (state !== "paused" && state !== "draining")) return undefined;
  // Nobody else can stop the operator's own.
  if (machine.owner_organization_id === null) return undefined;
  if (who === you) return "by you";
  return { owner: "by its owner", operator: "by the operator", moorage: "by Moorage", machine: undefined }[who];
}

function said(machine: Machine, now: Date): string {
  const sentence = machine.message ?? "";
  if (machine.state === "paused" && machine.paused_until) return `${sentence} Until ${shortTime(machine.paused_until, now)}.`;
  return sentence;
}

function joiningSentence(machine: Machine, now: Date): string {
  if (!machine.joins_until) return machine.message ?? "";
  if (new Date(machine.joins_until) <= now) return "Its command ran out. Get another, or remove it.";
  return `Waits until ${shortTime(machine.joins_until, now)} for its command to be run.`;
}
