/** Whether changes are told as they happen, and so how often to ask. */
let connected = false;

/** A notice may be lost; nothing stays wrong for longer than this. */
const WHILE_CONNECTED_MS = 30_000;

export function isConnected(): boolean {
  return connected;
}

export function setConnected(now: boolean): void {
  connected = now;
}

/** For `refetchInterval`: how often to ask while nobody tells. */
export function unlessTold(ms: number): () => number {
  return () => (connected ? WHILE_CONNECTED_MS : ms);
}
