/** Whether the service answers: every request tells, and while none gets through somebody goes on asking. */
import { useSyncExternalStore } from "react";

const ASK_AGAIN_MS = 2_000;
/** A page that is told of changes may ask nothing for half a minute; a lost connection is noticed sooner. */
const LONGEST_SILENCE_MS = 8_000;

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

/** Once it is lost, only whoever asks on purpose finds it again: an answer may have been on its way when it went. */
export function answered(): void {
  if (!connection.lost) connection = { lost: false, answeredAt: Date.now() };
}

export function unanswered(): void {
  if (connection.lost) return;
  connection = { ...connection, lost: true };
  tell();
  asking = window.setTimeout(askAgain, ASK_AGAIN_MS);
}

function found(): void {
  if (!connection.lost) return;
  window.clearTimeout(asking);
  connection = { lost: false, answeredAt: Date.now() };
  tell();
  for (const act of returns) act();
}

async function breakSilence(): Promise<void> {
  if (connection.lost || document.hidden || Date.now() - connection.answeredAt < LONGEST_SILENCE_MS) return;
  try {
    await fetch("/healthz", { cache: "no-store" });
    answered();
  } catch {
    unanswered();
  }
}

async function askAgain(): Promise<void> {
  try {
    await fetch("/healthz", { cache: "no-store" });
    found();
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
window.setInterval(() => void breakSilence(), LONGEST_SILENCE_MS / 4);
