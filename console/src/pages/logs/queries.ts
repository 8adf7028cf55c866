/** What is stored of a container's lines: page by page, and how many there are when. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { api, body, type Schemas } from "@/api/client";

import { asked, type Filter, from } from "./filter";

export type Line = Schemas["LogLine"];

/** A screen at once; then as many as the API gives. */
const FIRST_PAGE = 200;
const PAGE = 1_000;
const STEPS = 120;

export const linesQuery = (containerId: string, filter: Filter) =>
  infiniteQueryOptions({
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
    // Lines never change, so they are read once; and there may be many, so they are let go with the page.
    staleTime: Infinity,
    gcTime: 0,
    structuralSharing: false,
  });

export const histogramQuery = (containerId: string, filter: Filter) =>
  queryOptions({
    queryKey: ["containers", containerId, "log histogram", filter],
    queryFn: () =>
      body(
        api.GET("/api/v1/containers/{container_id}/logs/histogram", {
          params: { path: { container_id: containerId }, query: { ...asked(filter), from: from(filter), steps: STEPS } },
        }),
      ),
    placeholderData: keepPreviousData,
    refetchInterval: 15_000,
  });
