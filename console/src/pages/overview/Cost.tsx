import { SegmentedControl } from "@mantine/core";
import { queryOptions, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { handbook } from "@/addresses/handbook";
import { api, body } from "@/api/client";
import type { Container } from "@/api/queries";
import { HandbookLink } from "@/components/HandbookLink";
import { Money } from "@/components/Money";
import { Card } from "@/components/Page";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { Table } from "@/components/Table";

import { perRequest, rowsOf, summary } from "./costs";
import classes from "./Overview.module.css";

const DAY_MS = 86_400_000;
const SPANS = [
  { value: "1", label: "24 hours" },
  { value: "7", label: "7 days" },
];

const costQuery = (containerId: string, days: number) =>
  queryOptions({
    queryKey: ["containers", containerId, "cost", days],
    queryFn: () =>
      body(
        api.GET("/api/v1/containers/{container_id}/cost", {
          params: {
            path: { container_id: containerId },
            query: { from: new Date(Date.now() - days * DAY_MS).toISOString() },
          },
        }),
      ),
    // Adding it up takes the database a while, and an hour is bought once in an hour.
    staleTime: 60_000,
  });

/** Which API keys' requests the paid hours went into. */
export function Cost({ container }: { container: Container }) {
  const [days, setDays] = useState("1");
  const { data, error, refetch } = useQuery(costQuery(container.id, Number(days)));
  return (
    <Card
      title="Cost by API key"
      hint={data && data.hours > 0 ? summary(data) : undefined}
      action={<SegmentedControl size="xs" aria-label="Cost of the last" data={SPANS} value={days} onChange={setDays} />}
      flush
    >
      {error && !data ? <ErrorNotice error={error} retry={refetch} /> : null}
      {!data && !error ? <Waiting rows={2} height={36} /> : null}
      {data ? (
        <>
          <Table
            rows={rowsOf(data)}
            rowKey={(row) => row.id}
            empty="No hour was bought in this time. One is when a replica is ready."
            columns={[
              { head: "API key", cell: (row) => row.name },
              { head: "Requests", right: true, cell: (row) => row.requests?.toLocaleString("en-US") ?? "" },
              {
                head: "Per request",
                right: true,
                wide: true,
                cell: (row) => (row.requests ? perRequest(row.microusd, row.requests) : ""),
              },
              { head: "Cost", right: true, cell: (row) => <Money microusd={row.microusd} /> },
            ]}
          />
          {data.hours > 0 ? (
            <p className={classes.cost}>
              Each paid hour is divided by the requests that ended in it, however long they took.{" "}
              <HandbookLink to={handbook.costOfRequests}>How it is computed</HandbookLink>
            </p>
          ) : null}
        </>
      ) : null}
    </Card>
  );
}
