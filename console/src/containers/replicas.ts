/** What is said of a replica. */
import type { Container } from "@/api/queries";
import { dateAndTime, duration, since } from "@/components/times";

import type { Replica } from "./queries";

/** A person reads one word for "serves requests". */
const WORDS: Record<string, string> = { requested: "Preparing", routed: "Ready", ready: "Ready", collected: "Stopped" };

export function wordFor({ state }: Pick<Replica, "state">): string {
  return WORDS[state] ?? state.charAt(0).toUpperCase() + state.slice(1);
}

export function hasEnded({ state, ended_at }: Pick<Replica, "state" | "ended_at">): boolean {
  return ended_at !== null || state === "removed";
}

/** Since it was ready; of one that ended, how long it lived. */
export function ageOf(replica: Pick<Replica, "state" | "ready_at" | "created_at" | "ended_at">, now: Date): string {
  const from = replica.ready_at ?? replica.created_at;
  if (!hasEnded(replica)) return since(from, now);
  return replica.ended_at ? duration(Date.parse(replica.ended_at) - Date.parse(from)) : "–";
}

/** "15:47, out of memory". */
export function endOf(replica: Pick<Replica, "state" | "ended_at" | "reason">, now: Date): string {
  if (!hasEnded(replica)) return "";
  const when = replica.ended_at ? dateAndTime(replica.ended_at, now) : "";
  const why = replica.reason?.replaceAll("_", " ") ?? "";
  return [when, why].filter(Boolean).join(", ");
}

/** What is under way while there is none. */
export function noneYet({ state, asleep }: Pick<Container, "state" | "asleep">): string {
  if (asleep) return "It sleeps without a replica. A request wakes it.";
  switch (state) {
    case "PENDING":
      return "No replica yet: it waits for its turn.";
    case "PULLING":
      return "The image is being pulled. A replica starts when it is there.";
    case "STARTING":
      return "A replica is being started.";
    case "STOPPING":
    case "DELETING":
      return "No replica runs any more.";
    case "FAILED":
    case "STOPPED":
      return "No replica runs.";
    default:
      return "No replica yet.";
  }
}
