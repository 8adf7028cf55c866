import { Button } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";

import { handbook } from "@/addresses/handbook";
import { api, body } from "@/api/client";
import { AuditTable } from "@/components/AuditTable";
import { Card, Page } from "@/components/Page";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { zone } from "@/components/times";

const PAGE = 100;

/** What was changed of the installation itself: prices, machines, credit. */
export function Audit() {
  const found = useInfiniteQuery({
    queryKey: ["operator", "audit"],
    queryFn: ({ pageParam }) =>
      body(
        api.GET("/api/v1/operator/audit", {
          params: { query: { limit: PAGE, ...(pageParam ? { cursor: pageParam } : {}) } },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor ?? undefined,
    refetchInterval: 15_000,
  });
  const rows = found.data?.pages.flatMap((one) => one.items) ?? [];
  return (
    <Page title="Audit" learn={handbook.commands} hint={`Changes to the installation itself. What you decide about an organization is on its page. Times in ${zone}.`}>
      {found.error && rows.length === 0 ? <ErrorNotice error={found.error} retry={found.refetch} /> : null}
      {found.isPending ? <Waiting /> : null}
      {found.data ? (
        <Card flush label="Audit">
          <AuditTable rows={rows} empty="No changes yet. Changes to instance types, prices, machines and gateways appear here, with who made them and when." />
        </Card>
      ) : null}
      {found.hasNextPage ? (
        <Button variant="default" loading={found.isFetchingNextPage} onClick={() => found.fetchNextPage()}>
          Show older
        </Button>
      ) : null}
    </Page>
  );
}
