import { dollars } from "./Money";

/** "$1.10/h", or "$1.10 – 4.40/h" where the number of replicas may change. */
export function priceRange(perReplicaMicrousd: number, min: number, max: number): string {
  const low = dollars(perReplicaMicrousd * min);
  return min === max ? low : `${low} – ${dollars(perReplicaMicrousd * max).slice(1)}`;
}

export function PriceRange({ microusd, min, max }: { microusd: number; min: number; max: number }) {
  return <span>{priceRange(microusd, min, max)}/h</span>;
}
