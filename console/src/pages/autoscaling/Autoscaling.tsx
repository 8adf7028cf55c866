import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { handbook } from "@/addresses/handbook";
import { useContainer } from "@/addresses/useContainer";
import { Card, Page } from "@/components/Page";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { DecisionList } from "@/containers/metrics/DecisionList";
import { numbered } from "@/containers/metrics/decisions";
import { autoscalingQuery, metricsQuery } from "@/containers/metrics/queries";
import { RangePicker } from "@/containers/metrics/RangePicker";
import { ReplicaChart } from "@/containers/metrics/ReplicaChart";
import { useSpan } from "@/containers/metrics/useSpan";

import classes from "./Autoscaling.module.css";
import { PolicyCard } from "./PolicyCard";
import { Why } from "./Why";

const HEIGHT = 304;

/** How many replicas there are and why, and what another policy would have done. */
export function Autoscaling() {
  const container = useContainer();
  const [span, setSpan] = useSpan();
  const [selected, setSelected] = useState<number | null>(null);
  const { data: autoscaling, error, refetch } = useQuery(autoscalingQuery(container.id));
  const { data: measured } = useQuery(metricsQuery(container, span));
  const decisions = autoscaling?.policy && measured ? numbered(autoscaling.items, measured.range) : [];
  const select = (number: number) => setSelected(number === selected ? null : number);
  return (
    <Page title="Autoscaling" learn={handbook.howTheAutoscalerDecides} actions={autoscaling?.policy ? <RangePicker span={span} change={setSpan} /> : null}>
      {error && !autoscaling ? <ErrorNotice error={error} retry={refetch} /> : null}
      {!autoscaling && !error ? <Waiting rows={3} height={160} /> : null}
      {autoscaling ? <Why container={container} autoscaling={autoscaling} /> : null}
      {autoscaling?.policy && !measured ? <div className={classes.later} style={{ height: HEIGHT + 64 }} /> : null}
      {autoscaling?.policy && measured ? (
        <div className={classes.first}>
          <ReplicaChart
            measured={measured}
            autoscaling={autoscaling}
            span={span}
            height={HEIGHT}
            {...{ decisions, selected, select }}
          />
          <Card title="Decisions" hint={String(decisions.length)} flush>
            {decisions.length > 0 ? (
              <div className={classes.decisions}>
                <DecisionList {...{ decisions, selected, select }} />
              </div>
            ) : (
              <p className={classes.none}>The number did not change in this time.</p>
            )}
          </Card>
        </div>
      ) : null}
      {autoscaling ? <PolicyCard key={container.id} container={container} policy={autoscaling.policy} /> : null}
    </Page>
  );
}
