/** What the card of costs says, in sentences and rows. */
import type { Schemas } from "@/api/client";
import { dollars } from "@/components/Money";

export type CostOfRequests = Schemas["Cost"];

export interface CostRow {
  id: string;
  name: string;
  requests: number | null;
  microusd: number;
}

/** Keys, the dearest first, and then what went into no request. They add up to what was spent. */
export function rowsOf(cost: CostOfRequests): CostRow[] {
  const keys = cost.keys.map((one) => ({
    id: one.key_id ?? "unknown",
    name: one.name ?? (one.key_id ? `A key that is gone (${one.key_id})` : "Requests without a recorded key"),
    requests: one.requests,
    microusd: one.cost_microusd,
  }));
  if (cost.idle_hours === 0) return keys;
  const hours = cost.idle_hours === 1 ? "1 hour" : `${cost.idle_hours} hours`;
  return [...keys, { id: "idle", name: `${hours} without a request`, requests: null, microusd: cost.idle_microusd }];
}

const LEAST_MICROUSD = 100;

/** Of one request. A price that would read as nothing is said to be small. */
export function perRequest(microusd: number, requests: number): string {
  const each = microusd / requests;
  return each > 0 && each < LEAST_MICROUSD ? `under ${dollars(LEAST_MICROUSD)}` : dollars(Math.round(each));
}

export function summary(cost: CostOfRequests): string {
  const hours = cost.hours === 1 ? "1 hour" : `${cost.hours} hours`;
  const spent = `${dollars(cost.spent_microusd)} for ${hours}`;
  if (cost.requests === 0) return spent;
  const each = perRequest(cost.spent_microusd, cost.requests);
  return `${spent}, ${each} a request${cost.idle_hours > 0 ? ", idle hours included" : ""}`;
}
