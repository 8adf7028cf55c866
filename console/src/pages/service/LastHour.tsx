import { Skeleton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { paths } from "@/addresses/paths";
import type { Container } from "@/api/queries";
import type { Values } from "@/components/chart/drawing";
import { LinkTo } from "@/components/LinkTo";
import { Card } from "@/components/Page";
import { Sparkline } from "@/components/Sparkline";
import type { Measured } from "@/containers/metrics/measured";
import { metricsQuery } from "@/containers/metrics/queries";
import { LAST_HOUR } from "@/containers/metrics/range";
import type { Token } from "@/theme/tokens";

import { type Figure, rateIn, responseTimeIn } from "./lastHour";
import classes from "./LastHour.module.css";

const STEP_S = 60;
const STEPS = LAST_HOUR.seconds / STEP_S;

/** Whether it is used, how fast it answers, with how many: three figures with their shapes. */
export function LastHour({ container }: { container: Container }) {
  const { data } = useQuery(metricsQuery(container, LAST_HOUR, STEP_S));
  const replicas = data?.series["replica_count"] ?? [];
  // What did not run has no last hour; what just started has.
  if (container.replicas.ready === 0 && !replicas.some((count) => count !== null && count > 0)) return null;
  return (
    <Card
      title="Last hour"
      action={<LinkTo to={paths.dashboard(container.project_id, container.id, "metrics")}>Metrics</LinkTo>}
    >
      <dl className={classes.figures}>
        <Shape name="Requests" figure={data && rateIn(data)} of={data} series="request_rate" color="series-1" />
        <Shape name="Response p95" figure={data && responseTimeIn(data)} of={data} series="response_time_p95_ms" color="series-2" />
        <Shape
          name="Replicas"
          figure={{ text: `${container.replicas.ready} ready` }}
          of={data}
          series="replica_count"
          color="series-4"
          stepped
        />
      </dl>
    </Card>
  );
}

interface ShapeProps {
  name: string;
  /** Undefined while it is asked for. */
  figure: Figure | undefined;
  of: Measured | undefined;
  series: string;
  color: Token;
  stepped?: boolean;
}

function Shape({ name, figure, of, series, color, stepped = false }: ShapeProps) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {figure ? (
          <>
            <span>{figure.text}</span> {figure.note ? <small>{figure.note}</small> : null}
          </>
        ) : (
          <Skeleton height={20} width={64} animate={false} aria-busy="true" />
        )}
      </dd>
      <dd>
        <Sparkline values={of ? wholeHour(of, series) : []} color={color} stepped={stepped} />
      </dd>
    </div>
  );
}

/** Of one that is younger, what was before it stays empty. All end where what happened is known entirely. */
function wholeHour({ series, settled }: Measured, name: string): Values {
  const values = (series[name] ?? []).slice(0, settled);
  return [...Array<null>(Math.max(0, STEPS - values.length)).fill(null), ...values];
}
