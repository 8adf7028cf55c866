/** What a chart shows, in our words. */
import type { Token } from "@/theme/tokens";

export type Values = (number | null)[];

export interface Line {
  label: string;
  color: Token;
  values: Values;
  /** Filled to zero: one line per chart at most. */
  filled?: boolean;
  dashed?: boolean;
  stepped?: boolean;
  /** Bars that stand on those of the lines before it. */
  stacked?: boolean;
  /** Its name stands at its end. */
  named?: boolean;
  /** Half as strong: what explains the others. */
  thin?: boolean;
}

export interface Drawing {
  /** Seconds since 1970, ascending. */
  times: number[];
  lines: Line[];
  height: number;
  /** From and to, where they are not the first and the last of the times. */
  range?: [number, number];
  /** How a value is written on the axis, given how far they are apart there. */
  axis?: (value: number, step: number) => string;
  /** How a time is written below; hours and minutes unless said. */
  time?: (seconds: number) => string;
  /** Charts of the same name share one crosshair. */
  sync?: string;
  /** Only whole numbers mean something. */
  whole?: boolean;
  /** Values with a name, as a limit: a dashed line through the chart. */
  levels?: { value: number; label: string; below?: boolean }[];
  /** Room above for what stands there. */
  above?: number;
}

/** Where the lines are within the chart, in CSS pixels, and which times its edges are. */
export interface Area {
  left: number;
  top: number;
  width: number;
  height: number;
  from: number;
  to: number;
}

export interface Cursor {
  index: number;
  left: number;
}
