import { dollars } from "@/components/Money";

export const CENT_MICROUSD = 10_000;

/** What is paid out is whole cents, and never more than there is. */
export function inCents(microusd: number): string {
  return dollars(Math.floor(microusd / CENT_MICROUSD) * CENT_MICROUSD);
}
