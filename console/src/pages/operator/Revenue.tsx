import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import type { Schemas } from "@/api/client";
import { DayBars } from "@/components/DayBars";
import { byDay, dayAndMonth, lastDays } from "@/components/days";
import { Figures } from "@/components/Figures";
import { LastDays, USUAL_DAYS } from "@/components/LastDays";
import { dollars } from "@/components/Money";
import { Card, Page } from "@/components/Page";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { Table } from "@/components/Table";

import { revenueQuery } from "./queries";

type Day = Schemas["RevenueDay"];

/** What was earned and what came in, by day. */
export function Revenue() {
  const [days, setDays] = useState(USUAL_DAYS);
  const dates = lastDays(days);
  const first = dates[0] ?? "";
  const last = dates.at(-1) ?? "";
  const { data, error, refetch } = useQuery(revenueQuery(first, last));
  return (
    <Page title="Revenue" hint={`${dated(first)} to ${dated(last)}. Days in UTC; today is not over.`} actions={<LastDays days={days} change={setDays} />}>
      {error && !data ? <ErrorNotice error={error} retry={refetch} /> : null}
      {!data && !error ? <Waiting rows={3} height={64} /> : null}
      {data ? <Days items={data.items} dates={dates} /> : null}
    </Page>
  );
}

function Days({ items, dates }: { items: Day[]; dates: string[] }) {
  const sum = (read: (day: Day) => number) => dollars(items.reduce((total, day) => total + read(day), 0));
  return (
    <>
      <Card label="In all">
        <Figures
          figures={[
            { name: "Usage", value: sum((day) => day.usage_microusd), note: "hours that containers bought" },
            {
              name: "Paid in",
              value: sum(paidIn),
              note: `${sum((day) => day.card_microusd)} by card, ${sum((day) => day.bank_transfer_microusd)} by transfer`,
            },
            { name: "Credit granted", value: sum((day) => day.granted_microusd), note: "free of charge" },
            { name: "Refunded", value: sum((day) => day.refunded_microusd), note: "refunds and disputes" },
          ]}
        />
      </Card>
      <Card title="Usage by day">
        <DayBars
          label="Usage by day"
          dates={dates}
          parts={[
            {
              label: "Usage",
              color: "series-1",
              values: byDay(
                dates,
                items.map(({ day, usage_microusd: microusd }) => ({ day, microusd })),
              ),
            },
          ]}
        />
      </Card>
      <Card flush title="Usage and payments" hint="Days on which money moved.">
        <Table
          rows={items}
          rowKey={(row) => row.day}
          empty="No money moved in these days."
          columns={[
            { head: "Day", cell: (row) => dated(row.day) },
            { head: "Usage", right: true, cell: (row) => amount(row.usage_microusd) },
            { head: "Paid in", right: true, cell: (row) => amount(paidIn(row)) },
            { head: "By card", right: true, wide: true, cell: (row) => amount(row.card_microusd) },
            { head: "By transfer", right: true, wide: true, cell: (row) => amount(row.bank_transfer_microusd) },
            { head: "Granted", right: true, wide: true, cell: (row) => amount(row.granted_microusd) },
            { head: "Refunded", right: true, wide: true, cell: (row) => amount(row.refunded_microusd) },
          ]}
        />
      </Card>
    </>
  );
}

function paidIn(day: Day): number {
  return day.card_microusd + day.bank_transfer_microusd;
}

/** A column of noughts hides the one amount that is none. */
function amount(microusd: number): string {
  return microusd === 0 ? "–" : dollars(microusd);
}

function dated(day: string): string {
  return dayAndMonth(Date.parse(`${day}T00:00:00Z`) / 1000);
}
