import { useQuery } from "@tanstack/react-query";

import type { Container } from "@/api/queries";
import { Card } from "@/components/Page";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { Table } from "@/components/Table";
import { useNow } from "@/components/useNow";

import { type Replica, replicasQuery } from "./queries";
import { ageOf, endOf, hasEnded, noneYet, wordFor } from "./replicas";
import classes from "./ReplicaTable.module.css";
import { gpuName, replicaRange, shortId } from "./resources";

const TONES: Record<string, string> = { ready: "ok", routed: "ok", starting: "accent", requested: "accent" };

/** `past`: those that ended as well. */
export function ReplicaTable({ container, past = false }: { container: Container; past?: boolean }) {
  const now = useNow(5_000);
  const { data: replicas, error, refetch } = useQuery(replicasQuery(container.id));
  const shown = replicas?.filter((one) => past || !hasEnded(one));
  if (container.state === "STOPPED" && (shown ?? []).length === 0) return null;
  return (
    <Card title="Replicas" hint={countsOf(container)} flush>
      {error && !replicas ? <ErrorNotice error={error} retry={refetch} /> : null}
      {!replicas && !error ? <Waiting rows={Math.max(1, container.replicas.ready)} height={36} /> : null}
      {shown ? (
        <Table
          rows={shown}
          rowKey={(row) => row.id}
          empty={noneYet(container)}
          columns={[
            { head: "Instance", cell: (row) => <code>{shortId(row.id)}</code> },
            { head: "State", cell: (row) => <span data-tone={TONES[row.state] ?? "idle"}>{wordFor(row)}</span> },
            { head: "Node", cell: (row) => <Node replica={row} /> },
            ...(past ? [{ head: "Ended", wide: true, cell: (row: Replica) => <span className={classes.ended}>{endOf(row, now)}</span> }] : []),
            { head: "Age", right: true, cell: (row) => ageOf(row, now) },
          ]}
        />
      ) : null}
    </Card>
  );
}

function countsOf(container: Container): string | undefined {
  const { min, max } = replicaRange(container);
  const range = min === max ? "" : `autoscaling ${min} to ${max}`;
  if (container.state === "STOPPED") return range || undefined;
  const ready = `${container.replicas.ready} of ${container.replicas.desired} ready`;
  return range ? `${ready} · ${range}` : ready;
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
