/** The ways in which staged changes take over from what runs: what each interrupts, costs, and does when it fails. */
import type { Schemas } from "@/api/client";
import type { Container } from "@/api/queries";
import { dollars } from "@/components/Money";
import { roughly } from "@/components/times";
import type { StagedDraft } from "@/containers/queries";
import { STRATEGIES } from "@/containers/strategies";

import { upTo } from "./draftPrice";

type Strategy = Schemas["Strategy"];

/** Of the requests, for a canary that begins here; the page of versions has a slider. */
export const FIRST_SHARE = 10;

export interface Way {
  strategy: Strategy;
  label: string;
  meaning: string;
}

export function waysOf(draft: StagedDraft, container: Container): Way[] {
  const most = upTo(draft, container);
  return [
    {
      strategy: "rolling",
      label: STRATEGIES.rolling,
      meaning: `No interruption. Both versions serve until the new one has served well for ${roughly(draft.rolling.watch_s)}. If it fails or answers too many errors, it goes back by itself. ${needs(draft, most)}`,
    },
    {
      strategy: "canary",
      label: `${STRATEGIES.canary}, ${FIRST_SHARE} %`,
      meaning: `No interruption. The new version gets ${FIRST_SHARE} % of the requests until you promote or abort it under Versions. If it fails, or is clearly worse, it is dropped by itself. Its replicas cost ${most}${dollars(draft.price_per_hour_microusd.to)}/h each.`,
    },
    {
      strategy: "replace",
      label: STRATEGIES.replace,
      meaning: `Interrupts: it stops, and answers nothing until the new version is ready. If that does not become healthy, the settings from before come back by themselves. ${bought(draft.replace_cost_microusd, most) ?? "Costs nothing more."}`,
    },
  ];
}

/** What two versions beside each other take. */
function needs({ rolling }: StagedDraft, most: string): string {
  const cost = bought(rolling.cost_microusd, most) ?? "Costs nothing more: both use the hours that are paid.";
  return rolling.room_for >= rolling.beside_at_least ? cost : `${cost} No machine has room for both now.`;
}

function bought(microusd: number, most: string): string | null {
  return microusd > 0 ? `Buys ${most}${dollars(microusd)} of hours.` : null;
}
