/** What somebody wants to see of a container's lines, and how the API is asked for it. */
export const RANGES = {
  "15m": { label: "Last 15 minutes", seconds: 900 },
  "1h": { label: "Last hour", seconds: 3_600 },
  "6h": { label: "Last 6 hours", seconds: 21_600 },
  "24h": { label: "Last 24 hours", seconds: 86_400 },
  "7d": { label: "Last 7 days", seconds: 604_800 },
} as const;

export type Range = keyof typeof RANGES;

export interface Filter {
  text: string;
  /** Lines with it are left out. */
  exclude: string;
  range: Range;
  instance: string;
  stream: "" | "stdout" | "stderr" | "moorage";
  /** When the range was chosen; it ends there, and Live goes on from it. */
  chosenAt: number;
  /** It ends there for good: somebody came from a request of that time, and nothing arrives. */
  ended: boolean;
}

export const EVERYTHING: Filter = { text: "", exclude: "", range: "1h", instance: "", stream: "", chosenAt: 0, ended: false };

/** The API takes no more. */
export const MOST_TEXT = 200;
const INSTANCE = /^rep_[a-z2-7]{20}$/;

const STREAMS = ["stdout", "stderr", "moorage"] as const;

/** As an address has it, which may be anybody's: a link in a chat, or `paths.logsAround`. What there cannot be is left out. */
export function filterIn(search: Record<string, unknown>, now: number): Filter {
  const named = (name: string) => (typeof search[name] === "string" || typeof search[name] === "number" ? String(search[name]) : "");
  const until = Date.parse(named("until"));
  const ended = !Number.isNaN(until);
  const range = named("range") as Range;
  return {
    text: named("text").slice(0, MOST_TEXT),
    exclude: named("exclude").slice(0, MOST_TEXT),
    range: range in RANGES ? range : ended ? "15m" : EVERYTHING.range,
    instance: INSTANCE.test(named("instance")) ? named("instance") : "",
    stream: STREAMS.find((one) => one === named("stream")) ?? "",
    chosenAt: ended ? until : now,
    ended,
  };
}

/** Of the filters that a phone folds away: those that leave something out. */
export function howManyFolded({ exclude, instance, stream, range, ended }: Filter): number {
  return [exclude, instance, stream, ended || range !== EVERYTHING.range].filter(Boolean).length;
}

/** The other way round: as little as says the same. */
export function searchOf(filter: Filter): Record<string, string> {
  const usual = filter.ended ? "15m" : EVERYTHING.range;
  return {
    ...(filter.text ? { text: filter.text } : {}),
    ...(filter.exclude ? { exclude: filter.exclude } : {}),
    ...(filter.instance ? { instance: filter.instance } : {}),
    ...(filter.stream ? { stream: filter.stream } : {}),
    ...(filter.range !== usual ? { range: filter.range } : {}),
    ...(filter.ended ? { until: new Date(filter.chosenAt).toISOString() } : {}),
  };
}

/** What servers write about each health check that they answer: every few seconds, from each replica. Null where nothing tells them
 * from what clients ask for. */
export function healthCheckText(path: string | null | undefined): string | null {
  return path && path !== "/" ? `GET ${path}`.slice(0, MOST_TEXT) : null;
}

/** "in the last hour". */
export function whenOf(filter: Filter): string {
  return filter.ended ? "in that time" : `in the ${RANGES[filter.range].label.toLowerCase()}`;
}

interface Asked {
  text?: string;
  exclude?: string;
  instance?: string;
  stream?: "stdout" | "stderr" | "moorage";
  to?: string;
}

export function asked(filter: Filter): Asked {
  return {
    ...(filter.text ? { text: filter.text } : {}),
    ...(filter.exclude ? { exclude: filter.exclude } : {}),
    ...(filter.instance ? { instance: filter.instance } : {}),
    ...(filter.stream ? { stream: filter.stream } : {}),
    ...(filter.ended ? { to: new Date(filter.chosenAt).toISOString() } : {}),
  };
}

export function from(filter: Filter): string {
  return new Date(filter.chosenAt - RANGES[filter.range].seconds * 1000).toISOString();
}

/** For what the browser fetches by itself: the stream and the download. */
export function address(containerId: string, kind: "stream" | "download", filter: Filter): string {
  const query = new URLSearchParams({ ...asked(filter), ...(kind === "download" ? { from: from(filter) } : {}) });
  return `/api/v1/containers/${encodeURIComponent(containerId)}/logs/${kind}?${query}`;
}
