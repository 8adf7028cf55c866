import { useQuery } from "@tanstack/react-query";

import type { Container } from "@/api/queries";
import { Card } from "@/components/Page";
import { Table } from "@/components/Table";
import { since } from "@/components/times";
import { useNow } from "@/components/useNow";

import { type Replica, replicasQuery } from "./queries";
import classes from "./ReplicaTable.module.css";
import { gpuName, replicaRange, shortId } from "./resources";

const TONES: Record<string, string> = { ready: "ok", routed: "ok", starting: "accent", requested: "accent" };
/** A person reads one word for "serves requests". */
const WORDS: Record<string, string> = { routed: "Ready", ready: "Ready" };

export function ReplicaTable({ container, past = false }: { container: Container; past?: boolean }) {
  const now = useNow(5_000);
  const replicas = useQuery(replicasQuery(container.id)).data ?? [];
  const shown = past ? replicas : replicas.filter((one) => one.ended_at === null && one.state !== "removed");
  const { min, max } = replicaRange(container);
  const range = min === max ? "" : ` · autoscaling ${min} to ${max}`;
  const hint = `${container.replicas.ready} of ${container.replicas.desired} ready${range}`;
  if (container.state === "STOPPED" && shown.length === 0) return null;
  return (
    <Card title="Replicas" hint={hint} flush>
      <Table
        rows={shown}
        rowKey={(row) => row.id}
        empty="No replica yet."
        columns={[
          { head: "Instance", cell: (row) => <code>{shortId(row.id)}</code> },
          { head: "State", cell: (row) => <span data-tone={TONES[row.state] ?? "idle"}>{word(row)}</span> },
          { head: "Node", cell: (row) => <Node replica={row} /> },
          ...(past ? [{ head: "Ended", wide: true, cell: (row: Replica) => row.reason ?? "" }] : []),
          { head: "Age", right: true, cell: (row) => since(row.ready_at ?? row.created_at, now) },
        ]}
      />
    </Card>
  );
}

/** Of a machine that somebody lends: what may be known of it. */
function Node({ replica: { node, community } }: { replica: Replica }) {
  if (!community) return node;
  const gpus = community.gpus.map(gpuName).join(", ");
  return (
    <>
      {shortId(node)}
      <span className={classes.community}>
        Community · {gpus ? `${gpus} · ` : ""}
        {community.tier} · {community.reliability.toFixed(3)}
      </span>
    </>
  );
}

function word(replica: Replica): string {
  return WORDS[replica.state] ?? replica.state.charAt(0).toUpperCase() + replica.state.slice(1);
}
