import type { Container } from "@/api/queries";
import { span } from "@/components/PriceRange";
import { isDeploying, isStopped } from "@/components/state";
import { replicaRange } from "@/containers/resources";

/** What it costs now, and what it may: "$3.10/h now, $1.55 – 6.20/h for 1 to 4 replicas". Where it takes machines of either kind, what it
 * costs now is a range too: nobody here knows which replica took which. */
export function priceInWords(container: Container): string {
  const { min, max } = replicaRange(container);
  const { least_price_per_hour_microusd: least, price_per_hour_microusd: most } = container;
  // Of two versions, each may have its price and its replicas.
  if (container.rollout) return `${span(least, most)}/h a replica`;
  const range = `${span(least * min, most * max)}/h`;
  if (isStopped(container.state) || container.asleep) return `${range} when it runs`;
  if (isDeploying(container.state)) return `${range} once it is ready`;
  const { ready } = container.replicas;
  if (min === max || ready === 0) return range;
  return `${span(least * ready, most * ready)}/h now, ${range} for ${min} to ${max} replicas`;
}
