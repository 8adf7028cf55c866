/** The parts of a request's time: what they are called, how they are coloured, and where they stand on the bar. */
import type { Receipt } from "@/containers/requests/queries";

export type Phase = Receipt["phases"][number];

interface Look {
  word: string;
  /** Of a part of the wake. */
  part?: string;
  color: string;
  /** What stands in its bar where there is room; its colour carries text in both themes. */
  label?: string;
}

const LOOKS: Record<string, Look> = {
  queued: { word: "Queued", color: "queued" },
  "woken.placed": { word: "Woken", part: "placed", color: "placed" },
  "woken.started": { word: "Woken", part: "started", color: "started", label: "started" },
  "woken.loaded": { word: "Woken", part: "loaded", color: "loaded", label: "loaded" },
  "woken.routed": { word: "Woken", part: "routed", color: "placed" },
  connected: { word: "Connected", color: "placed" },
  to_first_byte: { word: "To first byte", color: "first" },
  answering: { word: "Answering", color: "answering", label: "answering" },
  unanswered: { word: "No answer", color: "unanswered", label: "no answer" },
};

export function lookOf(phase: Phase): Look {
  return LOOKS[phase.name] ?? { word: phase.name, color: "placed" };
}

export interface Span {
  from: number;
  width: number;
}

/** In percent of the whole. */
export function spans(phases: Phase[]): Span[] {
  const total = totalOf(phases);
  let before = 0;
  return phases.map(({ duration_ms }) => {
    const span = { from: (before / total) * 100, width: (duration_ms / total) * 100 };
    before += duration_ms;
    return span;
  });
}

/** What belongs to the wake, as one. */
export function wokenSpan(phases: Phase[]): (Span & { ms: number }) | null {
  const total = totalOf(phases);
  const woken = phases.filter((one) => one.name.startsWith("woken."));
  const ms = sum(woken);
  const first = phases.findIndex((one) => one.name.startsWith("woken."));
  return ms > 0 ? { from: (sum(phases.slice(0, first)) / total) * 100, width: (ms / total) * 100, ms } : null;
}

const MOST_TICKS = 5;
/** Of the bar: nearer to its end, a tick would stand on the last one. */
const TOO_NEAR = 0.85;

/** Round milliseconds below the whole, for the scale. */
export function ticks(totalMs: number): number[] {
  const power = 10 ** Math.floor(Math.log10(Math.max(totalMs, 1)));
  const step = [0.1, 0.2, 0.5, 1, 2, 5].map((one) => one * power).find((one) => totalMs / one <= MOST_TICKS) ?? totalMs;
  return Array.from({ length: MOST_TICKS + 1 }, (_, index) => index * step).filter((at) => at < totalMs * TOO_NEAR);
}

export function sum(phases: Phase[]): number {
  return phases.reduce((all, one) => all + one.duration_ms, 0);
}

function totalOf(phases: Phase[]): number {
  return Math.max(sum(phases), 1);
}
