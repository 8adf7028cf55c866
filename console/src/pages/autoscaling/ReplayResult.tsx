import { Chart } from "@/components/chart/Chart";
import type { Line } from "@/components/chart/drawing";
import { dollars } from "@/components/Money";
import { Table } from "@/components/Table";
import { axisTime, exactTime } from "@/containers/metrics/range";

import classes from "./Autoscaling.module.css";
import type { Replay } from "./queries";

interface Row {
  name: string;
  was: string;
  would: string;
  difference: string;
  /** Less of it is better; null where neither is. */
  better: boolean | null;
}

/** As it was beside as it would have been. */
export function ReplayResult({ replay }: { replay: Replay | undefined }) {
  if (!replay) {
    return (
      <p className={classes.none}>
        Change a number under Policy, press Replay, and see replica-hours, cost and the time over target before anything is applied.
      </p>
    );
  }
  const seconds = (Date.parse(replay.until) - Date.parse(replay.since)) / 1000;
  const span = { seconds, until: Date.parse(replay.until) };
  return (
    <>
      <Table
        rows={rowsOf(replay)}
        rowKey={(row) => row.name}
        empty=""
        columns={[
          { head: "", cell: (row) => row.name },
          { head: "As it was", right: true, cell: (row) => row.was },
          { head: "Replayed", right: true, cell: (row) => <strong>{row.would}</strong> },
          {
            head: "Difference",
            right: true,
            cell: (row) => <span data-tone={row.better === null ? undefined : row.better ? "ok" : "warn"}>{row.difference}</span>,
          },
        ]}
      />
      {replay.decisions.length > 0 ? (
        <div className={classes.replayed}>
          <Chart
            label={`Replicas in the replay, ${replay.decisions.length} changes`}
            {...stepsOf(replay)}
            height={120}
            time={axisTime(span)}
            moment={exactTime(span)}
            whole
          />
        </div>
      ) : null}
    </>
  );
}

function rowsOf({ as_it_was: was, replayed: would }: Replay): Row[] {
  const row = (name: string, before: number, after: number, shown: (value: number) => string): Row => {
    const difference = after - before;
    const isSame = shown(Math.abs(difference)) === shown(0);
    const text = `${difference > 0 ? "+" : "−"}${shown(Math.abs(difference))}`;
    return { name, was: shown(before), would: shown(after), difference: isSame ? "same" : text, better: isSame ? null : difference < 0 };
  };
  return [
    row("Replica-hours", was.replica_hours, would.replica_hours, (value) => value.toFixed(2)),
    row("Hours bought", was.hours_bought, would.hours_bought, String),
    row("Cost", was.cost_microusd, would.cost_microusd, dollars),
    row("Time over target", was.over_target_share, would.over_target_share, (value) => `${(value * 100).toFixed(1)} %`),
    { ...row("Changes", was.changes, would.changes, String), better: null },
  ];
}

/** The number after each change, until the next one. */
function stepsOf({ since, until, decisions, policy }: Replay): { times: number[]; lines: Line[]; range: [number, number] } {
  const from = Date.parse(since) / 1000;
  const to = Date.parse(until) / 1000;
  const points: [number, number][] = [
    [from, policy.min_replicas],
    ...decisions.map((one): [number, number] => [Date.parse(one.at) / 1000, one.replicas]),
  ];
  points.push([to, points.at(-1)![1]]);
  const values = points.map(([, replicas]) => replicas);
  return {
    times: points.map(([at]) => at),
    lines: [{ label: "replayed", color: "series-1", values, stepped: true, filled: true }],
    range: [from, to],
  };
}
