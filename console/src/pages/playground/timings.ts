import type { Timings } from "./chat";

export function ms(value: number | null): string {
  if (value === null) return "–";
  return value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(2)} s`;
}

/** Tokens after the first, over the time since it; unknown of an answer that came at once. */
export function speed({ tokens, pieces, firstTokenMs, totalMs }: Timings): string {
  if (tokens < 2 || pieces < 2 || firstTokenMs === null || totalMs === null || totalMs <= firstTokenMs) return "–";
  return `${((tokens - 1) / ((totalMs - firstTokenMs) / 1000)).toFixed(1)} tokens/s`;
}
