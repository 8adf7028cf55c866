/** How a chart is drawn: from our words to uPlot's. Zero base, horizontal grid, gaps stay gaps. */
import uPlot, { type AlignedData, type Options, type Series } from "uplot";

import { type Token, tokens } from "@/theme/tokens";

import type { Drawing, Line, Values } from "./drawing";
import { drawLabels, drawLevels } from "./marks";
import { niceMax } from "./scale";
import { tick } from "./ticks";

export type Scheme = "light" | "dark";

export function colorIn(scheme: Scheme): (name: Token) => string {
  return (name) => tokens[name][scheme === "light" ? 0 : 1];
}

export function dataOf({ times, lines }: Drawing): AlignedData {
  const values = lines.some((line) => line.stacked) ? stacked(lines) : lines.map((line) => line.values);
  return [times, ...values] as AlignedData;
}

/** Sums, the highest first: what is drawn later covers what is below it. */
function stacked(lines: Line[]): Values[] {
  const sums: Values[] = [];
  for (const { values } of lines) {
    const below = sums.at(-1);
    sums.push(values.map((value, index) => (value === null ? null : value + (below?.[index] ?? 0))));
  }
  return sums.reverse();
}

export function optionsOf(drawing: Drawing, latest: () => Drawing, scheme: Scheme, width: number): Options {
  const color = colorIn(scheme);
  const lines = drawing.lines.some((line) => line.stacked) ? drawing.lines.toReversed() : drawing.lines;
  return {
    width,
    height: drawing.height,
    legend: { show: false },
    padding: paddingOf(drawing),
    cursor: {
      drag: { x: false, y: false },
      points: { size: 7, width: 1.5, stroke: () => color("surface") },
      ...(drawing.sync ? { sync: { key: drawing.sync, scales: ["x", null] as [string, null] } } : {}),
    },
    scales: {
      x: { range: (_, min, max) => latest().range ?? [min, max] },
      y: { range: (_, __, max) => [0, topOf(latest(), max)] },
    },
    series: [{}, ...lines.map((line) => series(line, color, drawing.lines.some((one) => one.stacked)))],
    axes: axesOf(drawing, latest, color),
    hooks: {
      draw: [
        (plot) => {
          drawLevels(plot, latest(), color);
          drawLabels(plot, latest(), color);
        },
      ],
    },
  };
}

function paddingOf(drawing: Drawing): [number, number, number, number] {
  // A date may stand below the right edge, and is wider than a time.
  const right = drawing.lines.some((line) => line.named) ? 36 : drawing.time ? 20 : 16;
  return [drawing.above ?? 8, right, 0, 0];
}

function axesOf(drawing: Drawing, latest: () => Drawing, color: (name: Token) => string): Options["axes"] {
  const axis = {
    font: "11px 'Inter Variable'",
    stroke: color("ink-3"),
    ticks: { show: false },
    border: { show: false },
  };
  return [
    {
      ...axis,
      grid: { show: false },
      size: 24,
      space: 72,
      values: (_, times) => times.map((time) => (latest().time ?? hourAndMinute)(time)),
    },
    {
      ...axis,
      grid: { stroke: color("line"), width: 1 },
      // As wide as its longest number, so that charts begin where their titles do.
      size: (_, values) => Math.max(16, ...(values ?? []).map((value) => value.length * 6.5 + 8)),
      gap: 8,
      space: drawing.whole ? 24 : 32,
      ...(drawing.whole ? { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] } : {}),
      values: (_, values, __, ___, step) => values.map((value) => (latest().axis ?? tick)(value, step)),
    },
  ];
}

function series(line: Line, color: (name: Token) => string, bars: boolean): Series {
  const stroke = color(line.color);
  if (bars) {
    return {
      label: line.label,
      stroke,
      fill: stroke,
      width: 0,
      points: { show: false },
      ...(uPlot.paths.bars ? { paths: uPlot.paths.bars({ size: [0.76, 12], align: 1 }) } : {}),
    };
  }
  return {
    label: line.label,
    stroke,
    width: line.thin ? 1 : 1.5,
    points: { show: false },
    spanGaps: false,
    ...(line.filled ? { fill: `${stroke}17` } : {}),
    ...(line.dashed ? { dash: [3, 3] } : {}),
    ...(line.stepped && uPlot.paths.stepped ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}),
  };
}

function topOf(drawing: Drawing, max: number | null): number {
  const highest = Math.max(max ?? 0, ...(drawing.levels ?? []).map((level) => level.value));
  return drawing.whole ? Math.floor(highest) + 1 : niceMax(highest);
}

function hourAndMinute(time: number): string {
  return new Date(time * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}
