import { useInfiniteQuery } from "@tanstack/react-query";

import { Figures } from "@/components/Figures";
import { dollars } from "@/components/Money";
import { Card } from "@/components/Page";
import { fullMoment, shortTime } from "@/components/times";
import { useNow } from "@/components/useNow";
import type { Machine } from "@/machines/machine";
import { overallReliability, percent } from "@/machines/presence";

import { inCents } from "./cents";
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
          { name: "Machines", value: machines.length, note: connections(machines, now) },
          ...(month && earned
            ? [
                {
                  name: `Served in ${monthName(month.month)}`,
                  value: (
                    <>
                      {hours(month.served_s)} <small>h</small>
                    </>
                  ),
                  note: "measured at the gateways",
                },
                {
                  name: `Earned in ${monthName(month.month)}`,
                  value: inCents(month.earned_microusd),
                  note: `${earned.share_percent} % of what tenants paid`,
                },
                { name: "Payable now", value: inCents(earned.payable_microusd), note: whatComes(earned, now) },
              ]
            : []),
          {
            name: "Reliability",
            value: reliability === null ? "–" : percent(reliability),
            note: reliability === null ? "known after a day online" : "weighted by hours online",
          },
        ]}
      />
    </Card>
  );
}

/** "4 connected, 1 lost since 11:05, 1 banned": all of them, each once. */
function connections(machines: Machine[], now: Date): string {
  const apart = (["lost", "banned", "joining"] as const).map((state) => ({ state, those: machines.filter((one) => one.state === state) }));
  const connected = machines.length - apart.reduce((sum, { those }) => sum + those.length, 0);
  const words = apart.map(({ state, those }) => {
    const since = state === "lost" && those.length === 1 ? ` since ${shortTime(those[0]!.state_since, now)}` : "";
    return those.length > 0 ? `${those.length} ${state}${since}` : null;
  });
  return [`${connected} connected`, ...words].filter(Boolean).join(", ");
}

function whatComes(earned: Earnings, now: Date): string {
  if (earned.owed_microusd > 0) return `${dollars(earned.owed_microusd)} taken back: later earnings make up for it`;
  if (earned.requested_microusd > 0) return `${dollars(earned.requested_microusd)} requested`;
  if (earned.held_microusd === 0) return "nothing is held";
  const next = earned.next_payable_at;
  const from = next && new Date(next) > now ? `, the next part until ${fullMoment(next)}` : "";
  return `${inCents(earned.held_microusd)} held${from}`;
}

/** "November" of "2026-11" */
export function monthName(month: string): string {
  return new Date(`${month}-01T00:00:00Z`).toLocaleDateString("en-GB", { month: "long", timeZone: "UTC" });
}

function hours(seconds: number): string {
  return (Math.floor(seconds / 360) / 10).toLocaleString("en-US");
}
