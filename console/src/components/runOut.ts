import type { Billing } from "@/api/queries";

import { dayAndTime } from "./times";

const SOON_MS = 24 * 3_600_000;

/** "Runs out Thu 15:08"; in the colour of a warning when less than a day is left; nothing while nothing is spent. */
export function runOut(billing: Billing, now: Date): { sentence: string; tone: "warn" | "bad" | undefined } | null {
  if (billing.suspended) return { sentence: "Suspended", tone: "bad" };
  if (billing.available_microusd <= 0 && billing.burn_per_hour_microusd === 0) return { sentence: "No credit", tone: "bad" };
  if (!billing.runs_out_at) return null;
  const end = new Date(billing.runs_out_at);
  const isSoon = end.getTime() - now.getTime() < SOON_MS;
  return { sentence: `Runs out ${dayAndTime(end, now)}`, tone: isSoon ? "warn" : undefined };
}
