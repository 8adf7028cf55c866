import { CircleCheck, CircleHelp, OctagonX, TriangleAlert } from "lucide-react";

import type { Part } from "./queries";

const ICONS = { ok: CircleCheck, warning: TriangleAlert, failing: OctagonX, unknown: CircleHelp };
const WORDS = { ok: "Well", warning: "Warning", failing: "Failing", unknown: "Unknown" };

/** Each state has its own silhouette, so that the colour is not what says it. */
export function HealthIcon({ state }: { state: Part["state"] }) {
  const Icon = ICONS[state];
  return <Icon size={16} strokeWidth={1.5} aria-label={WORDS[state]} role="img" />;
}
