/** Which time the charts of a container show. */
export const RANGES = [
  { label: "15 min", words: "15 minutes", seconds: 900 },
  { label: "1 h", words: "hour", seconds: 3_600 },
  { label: "6 h", words: "6 hours", seconds: 21_600 },
  { label: "24 h", words: "24 hours", seconds: 86_400 },
  { label: "7 d", words: "7 days", seconds: 604_800 },
] as const;

export interface Span {
  seconds: number;
  /** Milliseconds since 1970; null while it is live and ends now. */
  until: number | null;
}

export const LAST_HOUR: Span = { seconds: 3_600, until: null };

const LONGEST_S = 400 * 86_400;

/** As an address says it; the last hour where it says nothing that there could be. */
export function spanIn(search: { seconds?: unknown; until?: unknown }): Span {
  const seconds = Number(search.seconds ?? LAST_HOUR.seconds);
  const until = typeof search.until === "string" ? Date.parse(search.until) : NaN;
  if (!(seconds >= 60 && seconds <= LONGEST_S)) return LAST_HOUR;
  return { seconds, until: Number.isNaN(until) ? null : until };
}

export function searchOfSpan({ seconds, until }: Span): { seconds?: number; until?: string } {
  return {
    ...(seconds === LAST_HOUR.seconds ? {} : { seconds }),
    ...(until === null ? {} : { until: new Date(until).toISOString() }),
  };
}

/** "in the last hour", or "in that time" where it is not one of the ranges, or ended. */
export function inWords({ seconds, until }: Span): string {
  const range = RANGES.find((one) => one.seconds === seconds);
  return range && until === null ? `in the last ${range.words}` : "in that time";
}

/** From when until when the span is, in milliseconds since 1970, without what was before the container. */
export function existingIn({ seconds, until }: Span, created: number, now: number): [from: number, to: number] {
  const to = until ?? now;
  const from = to - seconds * 1000;
  return [created < to ? Math.max(from, created) : from, to];
}

const DAY_S = 86_400;
const SECONDS_MATTER_S = 300;

/** What stands below a chart: hours and minutes, and seconds or the day where they alone would not say when. */
export function axisTime(span: Pick<Span, "seconds">): (seconds: number) => string {
  if (span.seconds < SECONDS_MATTER_S) return (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");
  if (span.seconds <= DAY_S) return (seconds) => hourAndMinute(new Date(seconds * 1000));
  return (seconds) => {
    const time = new Date(seconds * 1000);
    const isMidnight = time.getHours() === 0 && time.getMinutes() === 0;
    return isMidnight || span.seconds > 3 * DAY_S ? day(time) : hourAndMinute(time);
  };
}

/** The moment under the crosshair. */
export function exactTime(span: Span): (seconds: number) => string {
  return (seconds) => {
    const time = new Date(seconds * 1000);
    return span.seconds < DAY_S ? time.toLocaleTimeString("en-GB") : `${day(time)} ${hourAndMinute(time)}`;
  };
}

/** "13:32 – 14:32", with days where it spans more than one. */
export function spanText(span: Span, now: number): string {
  const to = new Date(span.until ?? now);
  const from = new Date(to.getTime() - span.seconds * 1000);
  if (from.toDateString() === to.toDateString() && to.toDateString() === new Date(now).toDateString()) {
    return `${hourAndMinute(from)} – ${hourAndMinute(to)}`;
  }
  return `${day(from)} ${hourAndMinute(from)} – ${day(to)} ${hourAndMinute(to)}`;
}

export function hourAndMinute(time: Date): string {
  return time.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

function day(time: Date): string {
  return time.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
}
