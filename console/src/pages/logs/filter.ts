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
  range: Range;
  instance: string;
  stream: "" | "stdout" | "stderr" | "moorage";
  /** When the range was chosen; it ends there, and Live goes on from it. */
  chosenAt: number;
  /** It ends there for good: somebody came from a request of that time, and nothing arrives. */
  ended: boolean;
}

export const EVERYTHING: Filter = { text: "", range: "1h", instance: "", stream: "", chosenAt: 0, ended: false };

const INSTANCE = /^rep_[a-z2-7]{20}$/;

/** What `paths.logsAround` asks for; null where the address asks for nothing that there could be. */
export function aroundIn(search: { instance?: unknown; until?: unknown }): Filter | null {
  const until = typeof search.until === "string" ? Date.parse(search.until) : NaN;
  if (Number.isNaN(until)) return null;
  const instance = typeof search.instance === "string" && INSTANCE.test(search.instance) ? search.instance : "";
  return { ...EVERYTHING, range: "15m", instance, chosenAt: until, ended: true };
}

/** "in the last hour". */
export function whenOf(filter: Filter): string {
  return filter.ended ? "in that time" : `in the ${RANGES[filter.range].label.toLowerCase()}`;
}

interface Asked {
  text?: string;
  instance?: string;
  stream?: "stdout" | "stderr" | "moorage";
  to?: string;
}

export function asked(filter: Filter): Asked {
  return {
    ...(filter.text ? { text: filter.text } : {}),
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
