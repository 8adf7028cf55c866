import { SegmentedControl } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import type { Container } from "@/api/queries";
import { Card } from "@/components/Page";
import { ErrorNotice } from "@/components/Patterns";
import { inWords, type Span } from "@/containers/metrics/range";
import { requestsQuery } from "@/containers/requests/queries";
import { RequestTable } from "@/containers/requests/RequestTable";

const MOST = 10;
const AGAIN_MS = 10_000;

/** The newest behind the curves, or the newest that failed. */
export function Requests({ container, span }: { container: Container; span: Span }) {
  const [kind, setKind] = useState("all");
  const since = span.until === null ? undefined : new Date(span.until - span.seconds * 1000).toISOString();
  const { data, error, refetch } = useQuery({
    ...requestsQuery(container.id, {
      limit: MOST,
      ...(kind === "failed" ? { failed: true } : {}),
      ...(since && span.until !== null ? { from: since, to: new Date(span.until).toISOString() } : {}),
    }),
    placeholderData: keepPreviousData,
    refetchInterval: span.until === null ? AGAIN_MS : false,
  });
  return (
    <Card
      title="Requests"
      hint={span.until === null ? "The newest. All that failed are kept, and of many others some." : `The newest ${inWords(span)}.`}
      action={
        <SegmentedControl
          size="xs"
          aria-label="Which requests"
          data={[
            { value: "all", label: "All" },
            { value: "failed", label: "Failed" },
          ]}
          value={kind}
          onChange={setKind}
        />
      }
      flush
    >
      {error && !data ? <ErrorNotice error={error} retry={refetch} /> : null}
      {data ? (
        <RequestTable
          projectId={container.project_id}
          containerId={container.id}
          requests={data.items}
          empty={kind === "failed" ? "None failed." : "None was recorded yet."}
        />
      ) : null}
    </Card>
  );
}
