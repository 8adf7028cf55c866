import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { paths } from "@/addresses/paths";
import { type Container, instanceTypesQuery } from "@/api/queries";
import { LinkTo } from "@/components/LinkTo";
import { Card } from "@/components/Page";
import { DecisionList } from "@/containers/metrics/DecisionList";
import { numbered } from "@/containers/metrics/decisions";
import type { Measured } from "@/containers/metrics/measured";
import { autoscalingQuery } from "@/containers/metrics/queries";
import type { Span } from "@/containers/metrics/range";
import { ReplicaChart } from "@/containers/metrics/ReplicaChart";

import classes from "./Metrics.module.css";
import { Panel } from "./Panel";
import { panelsOf } from "./panels";

const REPLICAS_HEIGHT = 272;
/** How many of the last ones are as wide as a half, so that thirds leave no hole: by what is left of three. */
const HALVES = [0, 4, 2];

export function Charts({ container, measured, span }: { container: Container; measured: Measured; span: Span }) {
  const { data: autoscaling } = useQuery(autoscalingQuery(container.id));
  const [selected, setSelected] = useState<number | null>(null);
  const decisions = autoscaling?.policy ? numbered(autoscaling.items, measured.range) : [];
  const select = (number: number) => setSelected(number === selected ? null : number);
  const types = useQuery(instanceTypesQuery).data;
  const type = types?.find((one) => one.name === container.resources.instance_type);
  const panels = panelsOf(measured, type ? { cpuMillis: type.vcpu_millis, memoryBytes: type.memory_bytes } : null);
  const choice = { decisions, selected, select };
  return (
    <>
      <div className={classes.first} data-alone={autoscaling?.policy ? undefined : true}>
        <ReplicaChart measured={measured} autoscaling={autoscaling} span={span} height={REPLICAS_HEIGHT} {...choice} />
        {autoscaling?.policy ? (
          <Card
            title="Autoscaler decisions"
            action={<LinkTo to={paths.dashboard(container.project_id, container.id, "autoscaling")}>Replay</LinkTo>}
            flush
          >
            {decisions.length > 0 ? (
              <div className={classes.decisions}>
                <DecisionList {...choice} />
              </div>
            ) : (
              <p className={classes.none}>The number did not change in this time.</p>
            )}
          </Card>
        ) : null}
      </div>
      <div className={classes.panels}>
        {panels.map((panel, index) => (
          <Panel
            key={panel.title}
            panel={panel}
            measured={measured}
            span={span}
            wide={index >= panels.length - HALVES[panels.length % 3]!}
          />
        ))}
      </div>
    </>
  );
}
