import { useComputedColorScheme } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import classes from "./Chart.module.css";
import type { Area, Cursor, Drawing } from "./drawing";
import { type Pin, Pins } from "./Pins";
import { dataOf, optionsOf } from "./plot";
import { Reading } from "./Reading";

interface ChartProps extends Drawing {
  /** For those who do not see it; the page offers the numbers as a table. */
  label: string;
  /** How a value is written beside the crosshair. */
  exact?: (value: number) => string;
  /** How the time beside the crosshair is written. */
  moment?: (seconds: number) => string;
  /** Moments with a number, above the chart. */
  pins?: Pin[];
}

const PINS_HEIGHT = 28;

export function Chart(props: ChartProps) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  const [area, setArea] = useState<Area | null>(null);
  const [cursor, setCursor] = useState<Cursor | null>(null);
  const scheme = useComputedColorScheme("light");
  const above = props.pins ? PINS_HEIGHT : undefined;
  const shape = JSON.stringify([scheme, props.height, props.sync, props.whole, above, props.lines.map(looks)]);

  useEffect(() => {
    latest.current = props;
    plot.current?.setData(dataOf(props));
  }, [props]);

  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const options = optionsOf({ ...props, above }, () => latest.current, scheme, element.clientWidth);
    options.hooks?.draw?.push((made) => setArea((before) => unlessSame(before, areaOf(made))));
    // The crosshair is in every chart of the page, the numbers are in the one under the pointer.
    let isHere = false;
    options.hooks = { ...options.hooks, setCursor: [(made) => setCursor(isHere ? cursorOf(made) : null)] };
    const made = new uPlot(options, dataOf(props), element);
    made.over.addEventListener("mouseenter", () => (isHere = true));
    made.over.addEventListener("mouseleave", () => {
      isHere = false;
      setCursor(null);
    });
    plot.current = made;
    const watcher = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: props.height }));
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      made.destroy();
      plot.current = null;
    };
    // eslint-disable-next-line react-hooks/exhaustive-deps -- `shape` says everything that needs a new plot
  }, [shape]);

  return (
    <div className={classes.frame}>
      <div ref={host} className={classes.chart} role="img" aria-label={props.label} style={{ height: props.height }} />
      {area && props.pins ? <Pins area={area} pins={props.pins} /> : null}
      {area && cursor ? <Reading area={area} cursor={cursor} {...props} /> : null}
    </div>
  );
}

/** All of a line but its values. */
function looks(line: Drawing["lines"][number]) {
  return { ...line, values: undefined };
}

function cursorOf({ cursor }: uPlot): Cursor | null {
  return typeof cursor.idx === "number" && cursor.left !== undefined && cursor.left >= 0
    ? { index: cursor.idx, left: cursor.left }
    : null;
}

function areaOf({ bbox, scales }: uPlot): Area {
  const ratio = uPlot.pxRatio;
  return {
    left: bbox.left / ratio,
    top: bbox.top / ratio,
    width: bbox.width / ratio,
    height: bbox.height / ratio,
    from: scales["x"]?.min ?? 0,
    to: scales["x"]?.max ?? 0,
  };
}

function unlessSame(before: Area | null, now: Area): Area {
  return before && JSON.stringify(before) === JSON.stringify(now) ? before : now;
}
