/** Whether the service answers: every request tells, and while none gets through somebody goes on asking. */
import { useSyncExternalStore } from "react";

const ASK_AGAIN_MS = 2_000;

export interface Connection {
  lost: boolean;
  /** When an answer last came: what is on the page is from then. */
  answeredAt: number;
}

let connection: Connection = { lost: false, answeredAt: Date.now() };
let asking = 0;
const watchers = new Set<() => void>();
const returns = new Set<() => void>();

export function useConnection(): Connection {
  return useSyncExternalStore(watch, () => connection);
}

/** Called whenever the connection is back after it was lost. Returns how to call it off. */
export function whenItReturns(act: () => void): () => void {
  returns.add(act);
  return () => returns.delete(act);
}

export function answered(): void {
  const wasLost = connection.lost;
  connection = { lost: false, answeredAt: Date.now() };
  if (!wasLost) return;
  window.clearTimeout(asking);
  tell();
  for (const act of returns) act();
}

export function unanswered(): void {
  if (connection.lost) return;
  connection = { ...connection, lost: true };
  tell();
  asking = window.setTimeout(askAgain, ASK_AGAIN_MS);
}

async function askAgain(): Promise<void> {
  try {
    await fetch("/healthz", { cache: "no-store" });
    answered();
  } catch {
    asking = window.setTimeout(askAgain, ASK_AGAIN_MS);
  }
}

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

function tell(): void {
  for (const watcher of watchers) watcher();
}

// A browser that says it is offline is; one that says it is online may be wrong, so that is asked.
window.addEventListener("offline", unanswered);
window.addEventListener("online", () => void (connection.lost && askAgain()));
