/** What stands on a chart besides its lines. uPlot draws in device pixels. */
import uPlot from "uplot";

import type { Token } from "@/theme/tokens";

import type { Drawing } from "./drawing";

const LABEL_APART = 13;

/** Limits, as a dashed line with its name at the right. */
export function drawLevels(plot: uPlot, { levels = [] }: Drawing, color: (name: Token) => string): void {
  const { ctx, bbox } = plot;
  const ratio = uPlot.pxRatio;
  ctx.save();
  ctx.fillStyle = color("ink-3");
  ctx.lineJoin = "round";
  ctx.font = `${11 * ratio}px 'Inter Variable'`;
  ctx.textAlign = "right";
  for (const { value, label, below } of levels) {
    const y = Math.round(plot.valToPos(value, "y", true)) + 0.5;
    ctx.strokeStyle = color("field");
    ctx.lineWidth = ratio;
    ctx.setLineDash([3 * ratio, 3 * ratio]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.textBaseline = below ? "top" : "bottom";
    const at = [bbox.left + bbox.width - 4 * ratio, y + (below ? 5 : -4) * ratio] as const;
    // A line that runs through it leaves it readable.
    ctx.setLineDash([]);
    ctx.strokeStyle = color("surface");
    ctx.lineWidth = 4 * ratio;
    ctx.strokeText(label, ...at);
    ctx.fillText(label, ...at);
  }
  ctx.restore();
}

/** The names of lines at their ends, moved apart where they would cover each other. */
export function drawLabels(plot: uPlot, { lines }: Drawing, color: (name: Token) => string): void {
  const { ctx, bbox } = plot;
  const ratio = uPlot.pxRatio;
  const labels = lines
    .filter((line) => line.named)
    .map((line) => ({ line, last: line.values.findLast((value) => value !== null) }))
    .filter((one): one is { line: (typeof one)["line"]; last: number } => typeof one.last === "number")
    .map(({ line, last }) => ({ text: line.label, y: plot.valToPos(last, "y", true) }))
    .sort((one, other) => other.y - one.y);
  ctx.save();
  ctx.fillStyle = color("ink-2");
  ctx.font = `${11 * ratio}px 'Inter Variable'`;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  let lowest = Infinity;
  for (const { text, y } of labels) {
    const place = Math.min(y, lowest - LABEL_APART * ratio);
    ctx.fillText(text, bbox.left + bbox.width + 6 * ratio, place);
    lowest = place;
  }
  ctx.restore();
}
