import type { Capsule, ProbeRun } from "./queries";

/** "Out of memory", from `out_of_memory`. */
export function reasonInWords({ reason }: Pick<Capsule, "reason">): string {
  const words = (reason ?? "ended unexpectedly").replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

const OUTCOMES: Record<string, string> = {
  refused: "Connection refused",
  timeout: "No answer in time",
  status: "Answered",
  ok: "Answered 200",
};

export function outcomeInWords({ outcome, status }: ProbeRun): string {
  if (status !== null) return `Answered ${status}`;
  return OUTCOMES[outcome] ?? outcome.replaceAll("_", " ");
}
