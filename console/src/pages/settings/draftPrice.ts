/** What staged changes cost. Pure. */
import type { Container } from "@/api/queries";
import { dollars } from "@/components/Money";
import { replicaRange } from "@/containers/resources";
import type { StagedDraft } from "@/containers/queries";

type Priced = Pick<Container, "resources" | "replicas" | "rollout" | "price_per_hour_microusd" | "least_price_per_hour_microusd">;

const EITHER_KIND = new Set(["infrastructure", "accept_exposure"]);

/** "up to " where a replica takes a machine of either kind, or will: a draft's prices are those of the dearer one. */
export function upTo(draft: Pick<StagedDraft, "changes">, container: Priced): "up to " | "" {
  const isRange = container.least_price_per_hour_microusd < container.price_per_hour_microusd;
  return isRange || draft.changes.some(({ field }) => EITHER_KIND.has(field)) ? "up to " : "";
}

/** "Costs the same: $1.55/h a replica"; `strong` stands out. */
export function draftPrice(draft: StagedDraft, container: Priced): { before: string; strong: string; after: string } {
  const { price_per_hour_microusd: each, least_cost_per_hour_microusd: least } = draft;
  const most = upTo(draft, container);
  if (each.from === each.to && least.from === least.to)
    return { before: "Costs the same: ", strong: `${most}${dollars(each.to)}/h`, after: ` a replica${ofThoseReady(each.to, most, container)}` };
  const fewest = scales(draft, container) ? "With the fewest replicas " : "";
  return {
    before: `${fewest}${most}${dollars(least.from)}/h before, `,
    strong: `${most}${dollars(least.to)}/h`,
    after: ` after${least.to === each.to ? "" : `, ${most}${dollars(each.to)}/h each replica`}`,
  };
}

/** Of two versions, each may have its price. */
function ofThoseReady(eachMicrousd: number, most: string, { replicas: { ready }, rollout }: Priced): string {
  return ready > 1 && !rollout ? `, ${most}${dollars(eachMicrousd * ready)}/h for the ${ready} that are ready now` : "";
}

function scales(draft: StagedDraft, container: Priced): boolean {
  const { min, max } = replicaRange(container);
  return min < max || draft.changes.some(({ field }) => field === "resources.max_replicas");
}
