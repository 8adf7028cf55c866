import { Chart } from "@/components/chart/Chart";
import type { Line } from "@/components/chart/drawing";
import { Card } from "@/components/Page";

import { demandOver, type Numbered, pinLabel, wantedOver } from "./decisions";
import { Legend } from "./Legend";
import type { Measured } from "./measured";
import type { Autoscaling } from "./queries";
import { axisTime, exactTime, type Span } from "./range";

interface ReplicaChartProps {
  measured: Measured;
  autoscaling: Autoscaling | undefined;
  decisions: Numbered[];
  selected: number | null;
  select: (number: number) => void;
  span: Span;
  height: number;
}

/** How many replicas were ready, how many were asked for, and the demand that explains it. */
export function ReplicaChart({ measured, autoscaling, decisions, selected, select, span, height }: ReplicaChartProps) {
  const policy = autoscaling?.policy ?? null;
  const lines = linesOf(measured, autoscaling);
  const { ready, coming } = autoscaling?.replicas ?? { ready: null, coming: 0 };
  const now = ready === null ? undefined : `${ready} ready now${coming > 0 ? `, ${coming} on the way` : ""}`;
  return (
    <Card title="Replicas" hint={now} action={<Legend lines={lines.toReversed()} decision={decisions.length > 0} />}>
      <Chart
        label={`Replicas over time. ${now ?? ""}`}
        times={measured.times}
        range={measured.range}
        lines={lines}
        height={height}
        sync="metrics"
        time={axisTime({ seconds: measured.range[1] - measured.range[0] })}
        moment={exactTime(span)}
        exact={(value) => String(Math.round(value * 100) / 100)}
        whole
        levels={
          policy
            ? [
                { value: policy.max_replicas, label: `max ${policy.max_replicas}` },
                { value: policy.min_replicas, label: `min ${policy.min_replicas}`, below: true },
              ]
            : []
        }
        pins={
          policy
            ? decisions.map((one) => ({
                at: one.at,
                number: one.number,
                label: pinLabel(one),
                selected: one.number === selected,
                select: () => select(one.number),
              }))
            : undefined
        }
      />
    </Card>
  );
}

function linesOf(measured: Measured, autoscaling: Autoscaling | undefined): Line[] {
  const lines: Line[] = [];
  const target = autoscaling?.policy?.target_concurrency;
  const demand = target ? demandOver(measured, target) : null;
  if (demand) lines.push({ label: "in flight ÷ target", color: "series-5", values: demand, thin: true });
  if (autoscaling?.policy) {
    const values = wantedOver(autoscaling, measured.times);
    lines.push({ label: "wanted", color: "series-1", values, stepped: true, dashed: true });
  }
  const ready = measured.series["replica_count"] ?? [];
  lines.push({ label: "ready", color: "series-1", values: ready, stepped: true, filled: true });
  return lines;
}
