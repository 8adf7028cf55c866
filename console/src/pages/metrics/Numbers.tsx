import { Card } from "@/components/Page";
import { type Column, Table } from "@/components/Table";
import type { Measured } from "@/containers/metrics/measured";
import { exactTime, type Span } from "@/containers/metrics/range";

const NAMES: Record<string, string> = {
  replica_count: "Replicas",
  request_rate: "Requests/s",
  in_flight: "In flight",
  queued: "Queued",
  response_time_p50_ms: "p50 ms",
  response_time_p95_ms: "p95 ms",
  response_time_p99_ms: "p99 ms",
  responses_2xx: "2xx",
  responses_4xx: "4xx",
  responses_5xx: "5xx",
};

/** The same numbers for those who read rather than look, newest first. */
export function Numbers({ measured, span }: { measured: Measured; span: Span }) {
  const { times, settled, series } = measured;
  const time = exactTime(span);
  const columns: Column<number>[] = Object.keys(NAMES)
    .filter((name) => series[name])
    .map((name) => ({ head: NAMES[name] ?? name, right: true, cell: (index) => figure(series[name]?.[index]) }));
  return (
    <Card label="Numbers" flush>
      <Table
        rows={Array.from({ length: settled }, (_, index) => settled - 1 - index)}
        rowKey={(index) => String(times[index])}
        empty="Nothing is known of this time."
        columns={[{ head: "Time", cell: (index) => time(times[index] ?? 0) }, ...columns]}
      />
    </Card>
  );
}

function figure(value: number | null | undefined): string {
  if (typeof value !== "number") return "–";
  return (Math.round(value * 100) / 100).toLocaleString("en-US");
}
