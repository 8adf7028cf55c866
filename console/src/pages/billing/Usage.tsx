import { SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { Chart, type Line } from "@/components/Chart";
import { dollars, Money } from "@/components/Money";
import { Card } from "@/components/Page";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { Table } from "@/components/Table";

import classes from "./Billing.module.css";
import { type UsageItem, usageQuery } from "./queries";

const DAY_MS = 86_400_000;

/** What was spent a day, and on which containers. */
export function Usage({ organizationId }: { organizationId: string }) {
  const [days, setDays] = useState("30");
  const [today] = useState(() => Date.now());
  const dates = Array.from({ length: Number(days) }, (_, index) => day(today - (Number(days) - 1 - index) * DAY_MS));
  const { data, error, refetch } = useQuery(usageQuery(organizationId, dates[0] ?? "", dates.at(-1) ?? ""));
  return (
    <Card
      title="Usage by day"
      hint={data ? `${dollars(data.total_microusd)} in ${days} days, in UTC` : undefined}
      action={
        <SegmentedControl
          aria-label="How many days"
          value={days}
          onChange={setDays}
          data={["7", "30", "90"].map((value) => ({ value, label: `${value} days` }))}
        />
      }
    >
      {error && !data ? <ErrorNotice error={error} retry={refetch} /> : null}
      {!data && !error ? <Waiting rows={1} height={200} /> : null}
      {data ? (
        <>
          <Chart
            label={`Spent by day, ${dollars(data.total_microusd)} in all`}
            {...steps(data.items, dates)}
            height={180}
            unit={(value) => `$${value}`}
            time={dayAndMonth}
          />
          <div className={classes.byContainer}>
            <Table
              rows={byContainer(data.items)}
              rowKey={(row) => row.id}
              empty="Nothing was spent. An hour is charged when a replica is ready."
              columns={[
                { head: "Container", cell: (row) => row.name ?? <code>{row.id}</code> },
                { head: "Hours", right: true, cell: (row) => row.hours },
                { head: "Amount", right: true, cell: (row) => <Money microusd={row.microusd} /> },
              ]}
            />
          </div>
        </>
      ) : null}
    </Card>
  );
}

/** One step a day; the last one is as wide as the others because it ends with its day. */
function steps(items: UsageItem[], dates: string[]): { times: number[]; lines: Line[] } {
  const spent = new Map<string, number>();
  for (const item of items) spent.set(item.day, (spent.get(item.day) ?? 0) + item.amount_microusd);
  const times = dates.map((date) => Date.parse(`${date}T00:00:00Z`) / 1000);
  const values = dates.map((date) => (spent.get(date) ?? 0) / 1e6);
  return {
    times: [...times, (times.at(-1) ?? 0) + DAY_MS / 1000],
    lines: [{ label: "Spent", color: "series-1", filled: true, stepped: true, values: [...values, values.at(-1) ?? 0] }],
  };
}

function byContainer(items: UsageItem[]) {
  const found = new Map<string, { id: string; name: string | null; hours: number; microusd: number }>();
  for (const item of items) {
    const row = found.get(item.container_id) ?? { id: item.container_id, name: item.container_name, hours: 0, microusd: 0 };
    row.hours += item.hours;
    row.microusd += item.amount_microusd;
    found.set(item.container_id, row);
  }
  return [...found.values()].sort((one, other) => other.microusd - one.microusd);
}

function day(time: number): string {
  return new Date(time).toISOString().slice(0, 10);
}

function dayAndMonth(time: number): string {
  return new Date(time * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
}
