import type { Receipt, Summary } from "./queries";

export function isFailed({ status, ended }: Pick<Summary, "status" | "ended">): boolean {
  return status === null || status >= 400 || ended !== "completed";
}

/** "212 ms", "4.2 s", "3 min 20 s". */
export function took(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(ms < 9_950 ? 1 : 0)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`;
}

const ENDINGS: Record<Summary["ended"], string> = {
  completed: "complete",
  client_left: "the client left",
  client_timeout: "the client was too slow",
  container_closed_connection: "the container hung up",
  container_timeout: "the container said nothing for too long",
  container_unreachable: "no replica accepted the connection",
  queue_timeout: "no replica was free in time",
  refused: "answered by the gateway",
  cut_off: "its replica was stopped",
  gateway_failed: "the gateway failed",
};

export function endingOf({ ended }: Pick<Summary, "ended">): string {
  return ENDINGS[ended];
}

/** The container sent nothing: what the client got instead was the gateway's own answer. */
export function isGatewaysAnswer({ status, ended, first_byte_ms }: Pick<Receipt, "status" | "ended" | "first_byte_ms">): boolean {
  return status !== null && ended !== "completed" && first_byte_ms === null;
}

/** "POST /v1/chat/completions"; a path that is not on the gateway's list is nobody's business. */
export function askedFor({ method, path }: Pick<Receipt, "method" | "path">): string | null {
  if (!method && !path) return null;
  return [method, path ?? "another path"].filter(Boolean).join(" ");
}
