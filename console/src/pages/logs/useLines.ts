import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";

import { address, type Filter } from "./filter";
import { histogramQuery, type Line, linesQuery } from "./queries";

/** Of the newest, however many there are: what a browser holds with ease, and more than anybody reads. */
export const MOST_LINES = 200_000;
/** Lines that may both be stored and arrive, because the reading and the stream do not begin at the same moment. */
const OVERLAP = 2_000;
const FLUSH_MS = 200;

/** Lines newest first: pages of what is stored, with what arrives in front of them. */
export function useLines(containerId: string, filter: Filter, live: boolean) {
  const stored = useInfiniteQuery(linesQuery(containerId, filter));
  const counted = useQuery(histogramQuery(containerId, filter));
  const arrived = useLive(containerId, filter, live);
  const lines = useMemo(() => {
    const pages = stored.data?.pages.flatMap((one) => one.items) ?? [];
    if (arrived.length === 0) return pages;
    const known = new Set(pages.slice(0, OVERLAP).map(lineKey));
    return [...arrived.filter((one) => !known.has(lineKey(one))), ...pages];
  }, [stored.data, arrived]);
  const hasMore = stored.hasNextPage && lines.length < MOST_LINES;
  const total = useMemo(
    () => (counted.data && !counted.isPlaceholderData ? sumOf(Object.values(counted.data.series)) : 0),
    [counted.data, counted.isPlaceholderData],
  );
  return {
    lines,
    /** How many there are in all, as far as that is known: once the last is here, exactly as many as there are lines. */
    total: stored.hasNextPage ? Math.max(total, lines.length) : lines.length,
    more: () => {
      if (hasMore && !stored.isFetchingNextPage && !stored.isFetchNextPageError) void stored.fetchNextPage();
    },
    error: stored.error,
    retry: () => void (stored.isFetchNextPageError ? stored.fetchNextPage() : stored.refetch()),
    isPending: stored.isPending,
  };
}

export function lineKey(line: Line): string {
  return `${line.instance_id} ${line.sequence}`;
}

function sumOf(series: number[][]): number {
  return series.flat().reduce((sum, count) => sum + count, 0);
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
      // The oldest of them go first; they are still stored.
      setLines((before) => [...newest, ...before].slice(0, MOST_LINES));
    }, FLUSH_MS);
    return () => {
      source.close();
      window.clearInterval(timer);
    };
  }, [containerId, filter, live]);
  return lines;
}
