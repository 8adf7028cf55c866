import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";

import { api, body, type Schemas } from "@/api/client";

import { address, asked, type Filter, from } from "./filter";

export type Line = Schemas["LogLine"];

const FIRST_PAGE = 500;
const PAGE = 1_000;
/** The oldest live lines go first; they are still stored. */
const MOST_LIVE = 100_000;
const FLUSH_MS = 200;

/** Lines newest first: pages of what is stored, with what arrives in front of them. */
export function useLines(containerId: string, filter: Filter, live: boolean) {
  const stored = useInfiniteQuery({
    queryKey: ["containers", containerId, "logs", filter],
    queryFn: ({ pageParam, signal }) =>
      body(
        api.GET("/api/v1/containers/{container_id}/logs", {
          params: {
            path: { container_id: containerId },
            query: { ...asked(filter), from: from(filter), ...(pageParam ? { cursor: pageParam, limit: PAGE } : { limit: FIRST_PAGE }) },
          },
          signal,
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor ?? undefined,
    staleTime: Infinity,
    // Lines never change: to compare all that are there with each page that comes would only cost time.
    structuralSharing: false,
  });
  const arrived = useLive(containerId, filter, live);
  const lines = useMemo(() => {
    const pages = stored.data?.pages.flatMap((one) => one.items) ?? [];
    const known = new Set(pages.slice(0, FIRST_PAGE).map(lineKey));
    return [...arrived.filter((one) => !known.has(lineKey(one))), ...pages];
  }, [stored.data, arrived]);
  return { lines, stored };
}

export function lineKey(line: Line): string {
  return `${line.instance_id} ${line.sequence}`;
}

/** The stream's lines since this filter was chosen. They are shown in batches: a flood must not be a render each. */
function useLive(containerId: string, filter: Filter, live: boolean): Line[] {
  const [lines, setLines] = useState<Line[]>([]);
  useEffect(() => setLines([]), [containerId, filter]);
  useEffect(() => {
    if (!live) return;
    let batch: Line[] = [];
    const source = new EventSource(address(containerId, "stream", filter));
    source.onmessage = (event: MessageEvent<string>) => batch.push(JSON.parse(event.data) as Line);
    const timer = window.setInterval(() => {
      if (batch.length === 0) return;
      const newest = batch.reverse();
      batch = [];
      setLines((before) => [...newest, ...before].slice(0, MOST_LIVE));
    }, FLUSH_MS);
    return () => {
      source.close();
      window.clearInterval(timer);
    };
  }, [containerId, filter, live]);
  return lines;
}
