import { Button, SegmentedControl } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Download } from "lucide-react";
import { useState } from "react";

import { dollars } from "@/components/Money";
import { Card } from "@/components/Page";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { Table } from "@/components/Table";
import { clockTime, longDate } from "@/components/times";
import { useNow } from "@/components/useNow";

import classes from "./Billing.module.css";
import { type Group, grouped } from "./groups";
import { entriesQuery, type EntrySort } from "./queries";

const SORTS = [
  { value: "all", label: "All" },
  { value: "other", label: "Payments" },
  { value: "usage", label: "Hours" },
];

/** Every movement of money, newest first: what it was for, and what was there after it. */
export function Entries({ organizationId }: { organizationId: string }) {
  const [sort, setSort] = useState<EntrySort>("all");
  const found = useInfiniteQuery(entriesQuery(organizationId, sort));
  const now = useNow(60_000);
  const entries = found.data?.pages.flatMap((one) => one.items) ?? [];
  const rows = grouped(entries, (iso) => new Date(iso).toDateString());
  return (
    <Card
      flush
      title="Entries"
      action={
        <>
          <SegmentedControl size="xs" aria-label="Which entries" data={SORTS} value={sort} onChange={(value) => setSort(value as EntrySort)} />
          <Button
            component="a"
            variant="default"
            size="xs"
            href={`/api/v1/organizations/${organizationId}/billing/entries/export`}
            download
            leftSection={<Download size={14} strokeWidth={1.5} />}
          >
            CSV
          </Button>
        </>
      }
    >
      {found.error && rows.length === 0 ? <ErrorNotice error={found.error} retry={found.refetch} /> : null}
      {found.isPending ? <Waiting /> : null}
      {found.data ? (
        <Table
          rows={rows}
          rowKey={(row) => row.id}
          empty={sort === "all" ? "No money moved yet. The first entry is your first top-up." : "No such entry."}
          columns={[
            { head: "Time", cell: (row) => `${longDate(row.at, now)} ${clockTime(row.at)}` },
            {
              head: "What",
              cell: (row) => (
                <>
                  {row.words}
                  {row.project ? <small className={classes.entryProject}>{row.project}</small> : null}
                </>
              ),
            },
            {
              head: "Amount, USD",
              right: true,
              cell: (row) => (
                <span data-tone={row.amount > 0 ? "ok" : undefined}>
                  {row.amount > 0 ? "+" : ""}
                  {dollars(row.amount).replace("$", "")}
                </span>
              ),
            },
            ...(sort === "all"
              ? [{ head: "Balance then, USD", right: true, wide: true, cell: (row: Group) => (row.balance === null ? "" : dollars(row.balance).replace("$", "")) }]
              : []),
          ]}
        />
      ) : null}
      {found.hasNextPage ? (
        <Button variant="default" m={16} loading={found.isFetchingNextPage} onClick={() => found.fetchNextPage()}>
          Show older
        </Button>
      ) : null}
    </Card>
  );
}
