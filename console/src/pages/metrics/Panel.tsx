import { Chart } from "@/components/chart/Chart";
import { Card } from "@/components/Page";
import { Legend } from "@/containers/metrics/Legend";
import type { Measured } from "@/containers/metrics/measured";
import { axisTime, exactTime, type Span } from "@/containers/metrics/range";

import classes from "./Metrics.module.css";
import type { PanelOf } from "./panels";

const HEIGHT = 240;

interface PanelProps {
  panel: PanelOf;
  measured: Measured;
  span: Span;
  /** Half of the page and not a third of it. */
  wide: boolean;
}

/** One chart in its card: its figure of now, its lines, or a sentence where there are none. */
export function Panel({ panel, measured, span, wide }: PanelProps) {
  const { title, unit, now, lines, nothing } = panel;
  const isNamed = lines.length > 1 || panel.ofReplicas;
  const isEmpty = lines.every((line) => line.values.every((value) => value === null));
  return (
    <div className={classes.panel} data-wide={wide || undefined}>
      <Card
        title={
          now === undefined ? (
            title
          ) : (
            <>
              {title} <span className={classes.now}>{now}</span>
            </>
          )
        }
        label={title}
        hint={isNamed ? unit : undefined}
        action={isNamed ? <Legend lines={lines} /> : <span className={classes.unit}>{unit}</span>}
      >
        {isEmpty ? (
          <p className={classes.nothing} style={{ height: HEIGHT }}>
            {nothing ?? "Nothing is known of this time."}
          </p>
        ) : (
          <Chart
            label={`${title}${unit ? `, ${unit}` : ""}, over time${now === undefined ? "" : `. ${now} now`}`}
            times={panel.times ?? measured.times}
            range={measured.range}
            lines={lines}
            height={HEIGHT}
            sync="metrics"
            axis={panel.axis}
            exact={panel.exact}
            levels={panel.levels}
            time={axisTime({ seconds: measured.range[1] - measured.range[0] })}
            moment={exactTime(span)}
          />
        )}
      </Card>
    </div>
  );
}
