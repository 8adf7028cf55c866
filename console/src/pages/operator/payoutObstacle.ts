/** What keeps a payout that was asked for from being sent. Pure. */
import { dollars } from "@/components/Money";
import { duration, fullMoment } from "@/components/times";

import type { Payout } from "./queries";

export interface Obstacle {
  word: string;
  reason: string;
  /** Nothing may be sent yet, whatever the operator thinks of it. */
  onHold: boolean;
}

export function obstacleOf(payout: Pick<Payout, "covered_microusd" | "amount_microusd" | "frozen_until">, now: Date): Obstacle | null {
  const { covered_microusd: covered, amount_microusd: amount, frozen_until: frozen } = payout;
  if (frozen) {
    const left = duration(new Date(frozen).getTime() - now.getTime());
    return { word: "On hold", reason: `The bank account was changed. Send nothing before ${fullMoment(frozen)} (in ${left}).`, onHold: true };
  }
  if (covered === null || covered >= amount) return null;
  return { word: "Not covered", reason: `Only ${dollars(covered)} is left: the rest was taken back.`, onHold: false };
}
