import { useQuery } from "@tanstack/react-query";

import { DayBars, type Part } from "@/components/DayBars";
import { byDay } from "@/components/days";
import { dollars, Money } from "@/components/Money";
import { Card } from "@/components/Page";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { Table } from "@/components/Table";
import type { Token } from "@/theme/tokens";

import classes from "./Billing.module.css";
import { type UsageItem, usageQuery } from "./queries";

/** The first few containers have a colour of their own; the rest share the last one. */
const COLORS: Token[] = ["series-1", "series-2", "series-3", "series-4"];
const OTHERS: Token = "series-5";

/** What was spent a day, and on which containers. */
export function Usage({ organizationId, dates }: { organizationId: string; dates: string[] }) {
  const { data, error, refetch } = useQuery(usageQuery(organizationId, dates[0] ?? "", dates.at(-1) ?? ""));
  return (
    <Card
      title="Usage by day"
      hint={data ? `${dollars(data.total_microusd)} in ${dates.length} days, in UTC` : undefined}
    >
      {error && !data ? <ErrorNotice error={error} retry={refetch} /> : null}
      {!data && !error ? <Waiting rows={1} height={200} /> : null}
      {data ? <ByContainer items={data.items} dates={dates} label={`Spent by day, ${dollars(data.total_microusd)} in all`} /> : null}
    </Card>
  );
}

function ByContainer({ items, dates, label }: { items: UsageItem[]; dates: string[]; label: string }) {
  const containers = byContainer(items);
  const colors = new Map(containers.map((one, at) => [one.id, COLORS[at] ?? OTHERS]));
  const parts: Part[] = containers.map((one) => ({
    label: one.id,
    color: colors.get(one.id) ?? OTHERS,
    values: byDay(
      dates,
      items.filter((item) => item.container_id === one.id).map((item) => ({ day: item.day, microusd: item.amount_microusd })),
    ),
  }));
  return (
    <DayBars label={label} dates={dates} parts={parts}>
      <Table
        rows={containers}
        rowKey={(row) => row.id}
        empty="Nothing was spent. An hour is charged when a replica is ready."
        columns={[
          {
            head: "Container",
            cell: (row) => (
              <>
                <i className={classes.swatch} style={{ background: `var(--m-${colors.get(row.id) ?? OTHERS})` }} aria-hidden />
                {row.name ?? <code>{row.id}</code>}
              </>
            ),
          },
          { head: "Replica hours", right: true, cell: (row) => row.hours },
          { head: "Spent", right: true, cell: (row) => <Money microusd={row.microusd} /> },
        ]}
      />
    </DayBars>
  );
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
