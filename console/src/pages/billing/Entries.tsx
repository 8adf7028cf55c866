import { Button } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Download } from "lucide-react";

import { dollars } from "@/components/Money";
import { Card } from "@/components/Page";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { Table } from "@/components/Table";
import { clockTime, longDate } from "@/components/times";
import { useNow } from "@/components/useNow";

import { entriesQuery } from "./queries";

/** Every movement of money, newest first. */
export function Entries({ organizationId }: { organizationId: string }) {
  const found = useInfiniteQuery(entriesQuery(organizationId));
  const now = useNow(60_000);
  const rows = found.data?.pages.flatMap((one) => one.items) ?? [];
  return (
    <Card
      flush
      title="Entries"
      action={
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
      }
    >
      {found.error && rows.length === 0 ? <ErrorNotice error={found.error} retry={found.refetch} /> : null}
      {found.isPending ? <Waiting /> : null}
      {found.data ? (
        <Table
          rows={rows}
          rowKey={(row) => row.id}
          empty="No money moved yet. The first entry is your first top-up."
          columns={[
            { head: "Time", cell: (row) => `${longDate(row.at, now)} ${clockTime(row.at)}` },
            { head: "What", cell: (row) => row.description },
            {
              head: "Amount, USD",
              right: true,
              cell: (row) => (
                <span data-tone={row.amount_microusd > 0 ? "ok" : undefined}>
                  {row.amount_microusd > 0 ? "+" : ""}
                  {dollars(row.amount_microusd).replace("$", "")}
                </span>
              ),
            },
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
