/** Requests to a container, and all that is known of one. */
import { queryOptions } from "@tanstack/react-query";

import { api, body, type Schemas } from "@/api/client";
import { Problem } from "@/api/problem";

export type Receipt = Schemas["Request"];
export type Summary = Schemas["RequestSummary"];

const LOOK_AGAIN_MS = 1_000;
/** A record is there a second or two after the request has ended. */
const APPEARS_WITHIN_MS = 20_000;

export const receiptQuery = (requestId: string) =>
  queryOptions({
    queryKey: ["requests", requestId],
    queryFn: () => body(api.GET("/api/v1/requests/{request_id}", { params: { path: { request_id: requestId } } })),
    staleTime: 30_000,
    refetchInterval: ({ state }) => (isMissing(state.error) && mayAppear(requestId) ? LOOK_AGAIN_MS : false),
  });

interface Wanted {
  failed?: boolean;
  from?: string;
  to?: string;
  at?: string;
  instance?: string;
  limit: number;
}

export const requestsQuery = (containerId: string, wanted: Wanted) =>
  queryOptions({
    queryKey: ["containers", containerId, "requests", wanted],
    queryFn: () =>
      body(
        api.GET("/api/v1/containers/{container_id}/requests", {
          params: { path: { container_id: containerId }, query: wanted },
        }),
      ),
  });

export function isMissing(error: unknown): boolean {
  return error instanceof Problem && error.status === 404;
}

/** A gateway's id begins with the second in which it was made. */
export function mayAppear(requestId: string): boolean {
  const second = /^req_(\d{10})-/.exec(requestId)?.[1];
  return second !== undefined && Date.now() - Number(second) * 1000 < APPEARS_WITHIN_MS;
}
