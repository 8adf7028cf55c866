/** What one delivery is about and how it stands. Pure. */
import { dollars } from "@/components/Money";
import type { Tone } from "@/components/state";
import { clockTime, since } from "@/components/times";

import type { Delivery } from "./queries";

/** Whoever sends looks every few seconds: later than that, nobody does. */
const OVERDUE_AFTER_MS = 60_000;

export interface Standing {
  word: string;
  tone: Tone;
  /** What the receiver answered, and when it is tried again. */
  response: string;
}

export function standingOf(delivery: Delivery, now: Date): Standing {
  const { delivered_at: delivered, next_try_at: next, tries, status, error } = delivery;
  const answer = error ?? (status ? `Answered ${status}` : null);
  if (delivered) return { word: "Delivered", tone: "ok", response: answer ?? "" };
  if (!next) return { word: "Given up", tone: "bad", response: answer ?? "" };
  const isOverdue = now.getTime() - new Date(next).getTime() > OVERDUE_AFTER_MS;
  const due = isOverdue ? `due ${since(next, now)} ago` : `next try ${moment(next, now)}`;
  const response = answer ? `${answer}, ${due}` : due.charAt(0).toUpperCase() + due.slice(1);
  if (isOverdue) return { word: "Overdue", tone: "warn", response };
  return tries === 0 ? { word: "On its way", tone: "accent", response } : { word: "Tries again", tone: "warn", response };
}

/** "15:53:24" today, "20 Nov 15:53:24" on another day. */
function moment(iso: string, now: Date): string {
  const time = new Date(iso);
  if (time.toDateString() === now.toDateString()) return clockTime(iso);
  return `${time.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${clockTime(iso)}`;
}

/** "chat: Running → Failed", "+$20.00", "ines@example.com": what the event says of whom. `nameOf` knows containers by id. */
export function subjectOf({ payload }: Pick<Delivery, "payload">, nameOf: (containerId: string) => string | undefined): string {
  const data = record(payload["data"]);
  const details = record(data["details"]);
  if (typeof data["amount_microusd"] === "number") {
    const amount = data["amount_microusd"];
    return [`${amount > 0 ? "+" : ""}${dollars(amount)}`, plain(data["kind"])].filter(Boolean).join(", ");
  }
  const container = text(data["container_id"]);
  // The organization itself is what all of its events are about.
  const target = data["target"] === payload["organization_id"] ? undefined : text(data["target"]);
  const about = container ? (nameOf(container) ?? container) : (text(details["name"]) ?? text(details["email"]) ?? target ?? "");
  const change = [plain(details["from"]), plain(details["to"])].filter(Boolean).join(" → ");
  return [about, change].filter(Boolean).join(": ");
}

function record(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** "Running" of "RUNNING", "card top up" of "card_top_up", 5 of 5. */
function plain(value: unknown): string {
  if (typeof value === "number") return String(value);
  if (typeof value !== "string") return "";
  return value === value.toUpperCase() ? value.charAt(0) + value.slice(1).toLowerCase() : value.replaceAll("_", " ");
}
