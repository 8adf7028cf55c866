import { LinkTo } from "@/components/LinkTo";
import { Table } from "@/components/Table";
import { lineTime } from "@/components/times";
import { shortId } from "@/containers/resources";
import { paths } from "@/addresses/paths";

import type { Summary } from "./queries";
import { askedFor, endingOf, isFailed, took } from "./words";

interface RequestTableProps {
  projectId: string;
  containerId: string;
  requests: Summary[];
  empty: string;
}

/** Requests by when they came; each leads to its receipt. */
export function RequestTable({ projectId, containerId, requests, empty }: RequestTableProps) {
  return (
    <Table
      rows={requests}
      rowKey={(row) => row.request_id}
      empty={empty}
      columns={[
        {
          head: "Time",
          cell: (row) => <LinkTo to={paths.receipt(projectId, containerId, row.request_id)}>{lineTime(row.started_at)}</LinkTo>,
        },
        {
          head: "Status",
          cell: (row) => <span data-tone={isFailed(row) ? "bad" : "ok"}>{row.status ?? "no answer"}</span>,
        },
        { head: "Took", right: true, cell: (row) => took(row.total_ms) },
        { head: "First byte", right: true, wide: true, cell: (row) => (row.first_byte_ms === null ? "–" : took(row.first_byte_ms)) },
        { head: "Request", wide: true, cell: (row) => <code>{askedFor(row) ?? "path not kept"}</code> },
        { head: "Ended", wider: true, cell: (row) => (row.held_ms === null ? endingOf(row) : `${endingOf(row)}, woke in ${took(row.held_ms)}`) },
        { head: "Instance", wider: true, cell: (row) => (row.replica_id ? <code>{shortId(row.replica_id)}</code> : "–") },
        { head: "Key", wider: true, cell: (row) => row.key_name ?? "–" },
      ]}
    />
  );
}
