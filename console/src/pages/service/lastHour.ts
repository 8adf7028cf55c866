/** The last hour in words: what is the case now, and how much it was. */
import { hourAndMinute } from "@/containers/metrics/range";
import type { Measured } from "@/containers/metrics/measured";
import { requestsIn } from "@/containers/traffic";

export interface Figure {
  text: string;
  /** What the figure alone would leave open. */
  note?: string;
}

/** Now, and in the hour. */
export function rateIn(measured: Measured): Figure {
  const count = requestsIn(measured);
  if (count === 0) return { text: "none" };
  const now = (measured.series["request_rate"] ?? [])[measured.settled - 1] ?? 0;
  const text = `${now.toLocaleString("en-US", { maximumFractionDigits: now < 10 ? 2 : 0 })}/s`;
  return { text, note: `${count.toLocaleString("en-US")} in the hour` };
}

/** Of the newest answers. Where those are not of now, it says of when. */
export function responseTimeIn({ series, times, settled }: Measured): Figure {
  const values = (series["response_time_p95_ms"] ?? []).slice(0, settled);
  const at = values.findLastIndex((value) => value !== null);
  const newest = values[at];
  if (typeof newest !== "number") return { text: "–" };
  const text = newest >= 1000 ? `${(newest / 1000).toLocaleString("en-US", { maximumFractionDigits: 1 })} s` : `${Math.round(newest)} ms`;
  return at === settled - 1 ? { text } : { text, note: `at ${hourAndMinute(new Date(times[at]! * 1000))}` };
}
