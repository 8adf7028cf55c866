import type { Token } from "@/theme/tokens";

import classes from "./Sparkline.module.css";

interface SparklineProps {
  /** As many as there are steps; what is not known stays a gap. */
  values: (number | null)[];
  color: Token;
  /** Numbers that jump, as replicas do. */
  stepped?: boolean;
}

/** The shape of the last hour beside a figure. It says nothing that the figure's words do not. */
export function Sparkline({ values, color, stepped = false }: SparklineProps) {
  const top = Math.max(1e-9, ...values.map((value) => value ?? 0)) * 1.1;
  const lines = piecesOf(values).map((piece) =>
    piece.map(([x, value], index) => {
      const y = 1 - value / top;
      return index === 0 ? `M${x},${y}` : stepped ? `H${x}V${y}` : `L${x},${y}`;
    }).join(""),
  );
  const fills = piecesOf(values).map((piece, index) => `${lines[index]}V1H${piece[0]![0]}Z`);
  return (
    <svg
      className={classes.sparkline}
      style={{ color: `var(--m-${color})` }}
      viewBox={`0 0 ${Math.max(1, values.length - 1)} 1`}
      preserveAspectRatio="none"
      aria-hidden
    >
      <path className={classes.fill} d={fills.join("")} />
      <path className={classes.line} d={lines.join("")} />
    </svg>
  );
}

type Point = [x: number, value: number];

/** Runs of known values; one that stands alone is as wide as its step. */
function piecesOf(values: (number | null)[]): Point[][] {
  const pieces: Point[][] = [];
  let isOpen = false;
  values.forEach((value, x) => {
    if (value === null) {
      isOpen = false;
    } else if (isOpen) {
      pieces.at(-1)!.push([x, value]);
    } else {
      pieces.push([[x, value]]);
      isOpen = true;
    }
  });
  return pieces.map((piece) => (piece.length > 1 ? piece : [piece[0]!, [piece[0]![0] + 0.9, piece[0]![1]]]));
}
