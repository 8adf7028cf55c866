import { useQuery } from "@tanstack/react-query";

import { paths } from "@/addresses/paths";
import type { Container } from "@/api/queries";
import type { Values } from "@/components/chart/drawing";
import { LinkTo } from "@/components/LinkTo";
import { Card } from "@/components/Page";
import { Sparkline } from "@/components/Sparkline";
import { latestOf, type Measured } from "@/containers/metrics/measured";
import { metricsQuery } from "@/containers/metrics/queries";
import { LAST_HOUR } from "@/containers/metrics/range";

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
        <div>
          <dt>Requests</dt>
          <dd>{data ? rate(data) : "…"}</dd>
          <dd>
            <Sparkline values={wholeHour(data?.series["request_rate"])} color="series-1" />
          </dd>
        </div>
        <div>
          <dt>Response p95</dt>
          <dd>{data ? responseTime(data) : "…"}</dd>
          <dd>
            <Sparkline values={wholeHour(data?.series["response_time_p95_ms"])} color="series-2" />
          </dd>
        </div>
        <div>
          <dt>Replicas</dt>
          <dd>{container.replicas.ready} ready</dd>
          <dd>
            <Sparkline values={wholeHour(replicas)} color="series-4" stepped />
          </dd>
        </div>
      </dl>
    </Card>
  );
}

/** Of one that is younger, what was before it stays empty. */
function wholeHour(values: Values = []): Values {
  return [...Array<null>(Math.max(0, STEPS - values.length)).fill(null), ...values];
}

function rate({ series }: Measured): string {
  const values = series["request_rate"] ?? [];
  if (!values.some((value) => value !== null && value > 0)) return "none";
  const now = latestOf(values) ?? 0;
  return now > 0 ? `${now.toLocaleString("en-US", { maximumFractionDigits: now < 10 ? 2 : 0 })}/s` : "none now";
}

function responseTime({ series }: Measured): string {
  const now = latestOf(series["response_time_p95_ms"]);
  if (now === null) return "no requests";
  return now >= 1000 ? `${(now / 1000).toLocaleString("en-US", { maximumFractionDigits: 1 })} s` : `${Math.round(now)} ms`;
}
