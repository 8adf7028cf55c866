import { dollars } from "./Money";

/** "$1.10/h", or "$1.10 – 4.40/h" where the number of replicas may change. */
export function priceRange(perReplicaMicrousd: number, min: number, max: number): string {
  return span(perReplicaMicrousd * min, perReplicaMicrousd * max);
}

/** "$0.03 – 0.05", or one amount where both are the same. */
export function span(leastMicrousd: number, mostMicrousd: number): string {
  const low = dollars(leastMicrousd);
  return leastMicrousd === mostMicrousd ? low : `${low} – ${dollars(mostMicrousd).slice(1)}`;
}

export function PriceRange({ microusd, min, max }: { microusd: number; min: number; max: number }) {
  return <span>{priceRange(microusd, min, max)}/h</span>;
}
