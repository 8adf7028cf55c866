import { useQuery } from "@tanstack/react-query";

import { DayBars } from "@/components/DayBars";
import { byDay } from "@/components/days";
import { Card } from "@/components/Page";
import { ErrorNotice, Waiting } from "@/components/Patterns";

import classes from "./Billing.module.css";
import { balanceQuery } from "./queries";

/** What was there at the end of each day, above what was spent on it. */
export function Balance({ organizationId, dates }: { organizationId: string; dates: string[] }) {
  const { data, error, refetch } = useQuery(balanceQuery(organizationId, dates[0] ?? "", dates.at(-1) ?? ""));
  return (
    <Card title="Balance by day" hint="At the end of each day, in UTC">
      {error && !data ? <ErrorNotice error={error} retry={refetch} /> : null}
      {!data && !error ? <Waiting rows={1} height={200} /> : null}
      {data?.every((one) => one.balance_microusd === 0) ? (
        <p className={classes.quiet}>There was no credit in these days.</p>
      ) : null}
      {data?.some((one) => one.balance_microusd !== 0) ? (
        <DayBars
          label={`Balance by day, in dollars, over ${dates.length} days`}
          dates={dates}
          parts={[
            {
              label: "Balance",
              color: "series-1",
              values: byDay(
                dates,
                data.map(({ day, balance_microusd: microusd }) => ({ day, microusd })),
              ),
            },
          ]}
        />
      ) : null}
    </Card>
  );
}
