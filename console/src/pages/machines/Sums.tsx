import { useInfiniteQuery } from "@tanstack/react-query";

import { Figures } from "@/components/Figures";
import { dollars } from "@/components/Money";
import { Card } from "@/components/Page";
import { dayAndTime, shortTime } from "@/components/times";
import { useNow } from "@/components/useNow";
import type { Machine } from "@/machines/machine";
import { overallReliability } from "@/machines/presence";

import { type Earnings, earningsQuery, type MonthEarnings } from "./queries";

interface SumsProps {
  organizationId: string;
  machines: Machine[];
  month: MonthEarnings | undefined;
  isAdmin: boolean;
}

/** What is there, what it serves, and what comes of it. */
export function Sums({ organizationId, machines, month, isAdmin }: SumsProps) {
  const now = useNow(30_000);
  const earned = useInfiniteQuery({ ...earningsQuery(organizationId), enabled: isAdmin }).data?.pages[0];
  const reliability = overallReliability(machines);
  return (
    <Card label="In short">
      <Figures
        figures={[
          { name: "Machines", value: machines.filter(isConnected).length, note: others(machines, now) },
          ...(month && earned
            ? [
                {
                  name: `Served in ${monthName(month.month)}`,
                  value: (
                    <>
                      {hours(month.served_s)} <small>h</small>
                    </>
                  ),
                  note: "as gateways saw it",
                },
                {
                  name: `Earned in ${monthName(month.month)}`,
                  value: dollars(month.earned_microusd),
                  note: `${earned.share_percent} % of what tenants paid`,
                },
                { name: "Payable now", value: dollars(earned.payable_microusd), note: whatComes(earned, now) },
              ]
            : []),
          {
            name: "Reliability",
            value: reliability === null ? "–" : reliability.toFixed(3),
            note: "weighted by hours there",
          },
        ]}
      />
    </Card>
  );
}

/** Moorage speaks to it. */
function isConnected({ state }: Machine): boolean {
  return state !== "joining" && state !== "lost" && state !== "banned";
}

function others(machines: Machine[], now: Date): string {
  const lost = machines.filter((one) => one.state === "lost");
  const [first] = lost;
  if (first && lost.length === 1) return `connected, 1 more lost since ${shortTime(first.state_since, now)}`;
  return lost.length > 1 ? `connected, ${lost.length} more lost` : "connected";
}

function whatComes(earned: Earnings, now: Date): string {
  if (earned.owed_microusd > 0) return `${dollars(earned.owed_microusd)} taken back: later earnings make up for it`;
  if (earned.requested_microusd > 0) return `${dollars(earned.requested_microusd)} asked for`;
  if (earned.held_microusd === 0) return "nothing is held";
  const from = earned.next_payable_at ? `, more from ${dayAndTime(new Date(earned.next_payable_at), now)}` : "";
  return `${dollars(earned.held_microusd)} held${from}`;
}

/** "November" of "2026-11" */
export function monthName(month: string): string {
  return new Date(`${month}-01T00:00:00Z`).toLocaleDateString("en-GB", { month: "long", timeZone: "UTC" });
}

function hours(seconds: number): string {
  return (Math.floor(seconds / 360) / 10).toLocaleString("en-US");
}
