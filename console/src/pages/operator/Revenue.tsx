import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import type { Schemas } from "@/api/client";
import { DayBars } from "@/components/DayBars";
import { byDay, dayAndMonth, lastDays } from "@/components/days";
import { Figures } from "@/components/Figures";
import { LastDays, USUAL_DAYS } from "@/components/LastDays";
import { Money } from "@/components/Money";
import { Card, Page } from "@/components/Page";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { Table } from "@/components/Table";

import { revenueQuery } from "./queries";

type Day = Schemas["RevenueDay"];

/** What was earned and what came in, by day. */
export function Revenue() {
  const [days, setDays] = useState(USUAL_DAYS);
  const dates = lastDays(days);
  const { data, error, refetch } = useQuery(revenueQuery(dates[0] ?? "", dates.at(-1) ?? ""));
  return (
    <Page title="Revenue" hint="Days in UTC." actions={<LastDays days={days} change={setDays} />}>
      {error && !data ? <ErrorNotice error={error} retry={refetch} /> : null}
      {!data && !error ? <Waiting rows={3} height={64} /> : null}
      {data ? <Days items={data.items} dates={dates} /> : null}
    </Page>
  );
}

function Days({ items, dates }: { items: Day[]; dates: string[] }) {
  const sum = (read: (day: Day) => number) => items.reduce((total, day) => total + read(day), 0);
  const paidIn = (day: Day) => day.card_microusd + day.bank_transfer_microusd;
  return (
    <>
      <Card label="In all">
        <Figures
          figures={[
            { name: "Hours sold", value: <Money microusd={sum((day) => day.usage_microusd)} />, note: "earned" },
            {
              name: "Paid in",
              value: <Money microusd={sum(paidIn)} />,
              note: (
                <>
                  <Money microusd={sum((day) => day.card_microusd)} /> by card
                </>
              ),
            },
            { name: "Granted", value: <Money microusd={sum((day) => day.granted_microusd)} />, note: "not paid for" },
            { name: "Given back", value: <Money microusd={sum((day) => day.refunded_microusd)} />, note: "refunds, disputes" },
          ]}
        />
      </Card>
      <Card title="Hours sold by day">
        <DayBars
          label="Hours sold by day"
          dates={dates}
          parts={[
            {
              label: "Hours sold",
              color: "series-1",
              values: byDay(
                dates,
                items.map(({ day, usage_microusd: microusd }) => ({ day, microusd })),
              ),
            },
          ]}
        >
          <Table
            rows={items}
            rowKey={(row) => row.day}
            empty="Nothing moved in these days."
            columns={[
              { head: "Day", cell: (row) => dayAndMonth(Date.parse(`${row.day}T00:00:00Z`) / 1000) },
              { head: "Hours sold", right: true, cell: (row) => <Money microusd={row.usage_microusd} /> },
              { head: "By card", right: true, wide: true, cell: (row) => <Money microusd={row.card_microusd} /> },
              { head: "By transfer", right: true, wide: true, cell: (row) => <Money microusd={row.bank_transfer_microusd} /> },
              { head: "Granted", right: true, wide: true, cell: (row) => <Money microusd={row.granted_microusd} /> },
              { head: "Given back", right: true, cell: (row) => <Money microusd={row.refunded_microusd} /> },
            ]}
          />
        </DayBars>
      </Card>
    </>
  );
}
