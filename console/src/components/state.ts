import type { Container } from "@/api/queries";

export type State = Container["state"];
export type Tone = "ok" | "warn" | "bad" | "idle" | "accent";

/** What people see: one that is RUNNING without replicas sleeps. */
export type Look = State | "ASLEEP";

export function lookOf(container: Pick<Container, "state" | "asleep">): Look {
  return container.asleep && container.state === "RUNNING" ? "ASLEEP" : container.state;
}

export const STATES: Record<Look, { word: string; tone: Tone }> = {
  PENDING: { word: "Pending", tone: "warn" },
  PULLING: { word: "Pulling", tone: "accent" },
  STARTING: { word: "Starting", tone: "accent" },
  RUNNING: { word: "Running", tone: "ok" },
  ASLEEP: { word: "Asleep", tone: "idle" },
  STOPPING: { word: "Stopping", tone: "idle" },
  STOPPED: { word: "Stopped", tone: "idle" },
  FAILED: { word: "Failed", tone: "bad" },
  DELETING: { word: "Deleting", tone: "idle" },
};

/** Settings may change, nothing runs, nothing is billed. */
export function isStopped(state: State): boolean {
  return state === "STOPPED" || state === "FAILED";
}

export function isDeploying(state: State): boolean {
  return state === "PENDING" || state === "PULLING" || state === "STARTING";
}
