/** Nothing is done twice because its answer was lost. Each thing that is asked for has a key, and whoever asks for the same once more
 * soon after no answer came sends the same key: the API then answers what it answered, and does nothing. */

/** Later than this, the same press means the same thing anew: another restart, another key of that name. */
const ONCE_MORE_MS = 60_000;
/** They make nothing. */
const READS = ["/preflight", "/models/resolve", "/replay"];
const BYTES = 16;

interface Attempt {
  key: string;
  at: number;
}

/** By what was asked for, word by word. */
const unanswered = new Map<string, Attempt>();

export function keyFor(asked: string, nowMs: number): string {
  for (const [other, { at }] of unanswered) if (nowMs - at > ONCE_MORE_MS) unanswered.delete(other);
  const attempt = unanswered.get(asked) ?? { key: newKey(), at: nowMs };
  unanswered.set(asked, attempt);
  return attempt.key;
}

/** Whoever got an answer knows what became of it. A server that fails, or is still at it, is no answer. */
export function settled(key: string | null, status: number, code: string): void {
  if (status >= 500 || code === "idempotency_key_in_use") return;
  for (const [asked, attempt] of unanswered) if (attempt.key === key) unanswered.delete(asked);
}

export function makesSomething(method: string, url: string): boolean {
  return method === "POST" && !READS.some((path) => url.endsWith(path));
}

/** Not `crypto.randomUUID`, which a browser has over https alone. */
function newKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(BYTES))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
