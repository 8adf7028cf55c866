import { useInfiniteQuery } from "@tanstack/react-query";
import { Button } from "@mantine/core";

import { handbook } from "@/addresses/handbook";
import { useContainer } from "@/addresses/useContainer";
import { api, body } from "@/api/client";
import { Card, Page } from "@/components/Page";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { Table } from "@/components/Table";
import { clockTime, longDate, zone } from "@/components/times";
import { useNow } from "@/components/useNow";
import { sentenceFor } from "@/containers/activities";
import type { Activity as ActivityRecord } from "@/containers/queries";
import { useActor } from "@/containers/useActor";

import classes from "./Activity.module.css";

const PAGE = 100;

/** Everything that happened to a container, who caused it and why, newest first. */
export function Activity() {
  const container = useContainer();
  const actor = useActor();
  const now = useNow(60_000);
  const found = useInfiniteQuery({
    queryKey: ["containers", container.id, "activity", "all"],
    queryFn: ({ pageParam }) =>
      body(
        api.GET("/api/v1/containers/{container_id}/activity", {
          params: { path: { container_id: container.id }, query: { limit: PAGE, ...(pageParam ? { cursor: pageParam } : {}) } },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor ?? undefined,
    refetchInterval: 5_000,
  });
  const rows = found.data?.pages.flatMap((one) => one.items) ?? [];
  return (
    <Page title="Activity" learn={handbook.states} hint={`Times in ${zone}.`}>
      {found.error && rows.length === 0 ? <ErrorNotice error={found.error} retry={found.refetch} /> : null}
      {found.isPending ? <Waiting /> : null}
      {rows.length > 0 ? (
        <Card flush label="Activity">
          <Table
            rows={rows}
            rowKey={(row) => row.id}
            empty="Nothing happened yet."
            columns={[
              {
                head: "Time",
                wide: true,
                cell: (row) => <span data-figures>{`${longDate(row.at, now)} ${clockTime(row.at)}`}</span>,
              },
              {
                head: "What",
                cell: (row) => {
                  const { what, tone } = sentenceFor(row);
                  return <span data-tone={tone}>{what}</span>;
                },
              },
              { head: "Detail", wide: true, cell: (row) => <Detail activity={row} /> },
              { head: "By", wide: true, cell: (row) => actor(row.actor) },
            ]}
          />
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

/** Its sentence; "no capacity" where nobody wrote one. */
function Detail({ activity }: { activity: ActivityRecord }) {
  const text = sentenceFor(activity).detail || activity.reason?.replaceAll("_", " ");
  return text ? <span className={classes.detail}>{text}</span> : null;
}
