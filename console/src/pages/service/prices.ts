import type { Container } from "@/api/queries";
import { dollars } from "@/components/Money";
import { priceRange } from "@/components/PriceRange";
import { isDeploying, isStopped } from "@/components/state";
import { replicaRange } from "@/containers/resources";

/** What it costs now, and what it may: "$3.10/h now, $1.55 – 6.20/h for 1 to 4 replicas". */
export function priceInWords(container: Container): string {
  const { min, max } = replicaRange(container);
  const each = container.price_per_hour_microusd;
  const range = `${priceRange(each, min, max)}/h`;
  if (isStopped(container.state) || container.asleep) return `${range} when it runs`;
  if (isDeploying(container.state)) return `${range} once it is ready`;
  if (min === max || container.replicas.ready === 0) return range;
  return `${dollars(each * container.replicas.ready)}/h now, ${range} for ${min} to ${max} replicas`;
}
