import { useComputedColorScheme } from "@mantine/core";
import { useEffect, useRef } from "react";
import uPlot, { type AlignedData, type Options, type Series } from "uplot";
import "uplot/dist/uPlot.min.css";

import { type Token, tokens } from "@/theme/tokens";

import classes from "./Chart.module.css";

export interface Line {
  label: string;
  color: Token;
  values: (number | null)[];
  /** Filled to zero: one line per chart at most. */
  filled?: boolean;
  dashed?: boolean;
  stepped?: boolean;
}

interface ChartProps {
  /** For those who do not see it; the page offers the numbers as a table. */
  label: string;
  /** Seconds since 1970, ascending. */
  times: number[];
  lines: Line[];
  height: number;
  unit?: (value: number) => string;
  /** How a time is written below; hours and minutes unless said. */
  time?: (seconds: number) => string;
  /** No axes and no crosshair: a shape behind a figure. */
  sparkline?: boolean;
  /** Charts of the same name share one crosshair. */
  sync?: string;
}

/** Zero base, horizontal grid, gaps stay gaps. */
export function Chart(props: ChartProps) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const scheme = useComputedColorScheme("light");
  const shape = JSON.stringify([scheme, props.height, props.sparkline, props.sync, props.lines.map(({ label, color }) => [label, color])]);

  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const made = new uPlot(options(props, scheme, element.clientWidth), data(props), element);
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

  useEffect(() => {
    plot.current?.setData(data(props));
  }, [props]);

  return <div ref={host} className={classes.chart} role="img" aria-label={props.label} style={{ height: props.height }} />;
}

function data(props: ChartProps): AlignedData {
  return [props.times, ...props.lines.map((line) => line.values)] as AlignedData;
}

function options(props: ChartProps, scheme: "light" | "dark", width: number): Options {
  const color = (name: Token) => tokens[name][scheme === "light" ? 0 : 1];
  const axis = {
    font: "11px 'Inter Variable'",
    stroke: color("ink-3"),
    ticks: { show: false },
    border: { show: false },
  };
  return {
    width,
    height: props.height,
    legend: { show: false },
    // A date may stand below the right edge, and is wider than a time.
    padding: props.sparkline ? [4, 0, 0, 0] : [8, props.time ? 20 : 8, 0, 0],
    cursor: props.sparkline
      ? { show: false }
      : { drag: { x: false, y: false }, points: { size: 6 }, ...(props.sync ? { sync: { key: props.sync } } : {}) },
    scales: { y: { range: (_, __, max) => [0, niceMax(max)] } },
    series: [{}, ...props.lines.map((line) => series(line, color))],
    axes: props.sparkline
      ? [{ show: false }, { show: false }]
      : [
          { ...axis, grid: { show: false }, size: 28, space: 90, values: (_, times) => times.map(props.time ?? hourAndMinute) },
          {
            ...axis,
            grid: { stroke: color("line"), width: 1 },
            size: 52,
            space: 32,
            values: (_, values) => values.map((value) => (props.unit ? props.unit(value) : String(value))),
          },
        ],
  };
}

function series(line: Line, color: (name: Token) => string): Series {
  const stroke = color(line.color);
  return {
    label: line.label,
    stroke,
    width: 1.5,
    points: { show: false },
    spanGaps: false,
    ...(line.filled ? { fill: `${stroke}17` } : {}),
    ...(line.dashed ? { dash: [3, 3] } : {}),
    ...(line.stepped && uPlot.paths.stepped ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}),
  };
}

function niceMax(max: number | null): number {
  if (!max || max <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(max));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= max * 1.05) ?? max * 1.2;
}

function hourAndMinute(time: number): string {
  return new Date(time * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}
