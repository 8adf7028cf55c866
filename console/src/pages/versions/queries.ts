import { infiniteQueryOptions, useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body, type Schemas } from "@/api/client";
import type { Container } from "@/api/queries";
import { done, failed } from "@/components/toasts";

export type Version = Schemas["Version"];

const PAGE = 50;
const OFTEN_MS = 1_000;
const RARELY_MS = 10_000;

const at = (container: Container) => ({ container_id: container.id });

/** Often while an update goes on: its figures change every second. */
export const versionsQuery = (container: Container) =>
  infiniteQueryOptions({
    queryKey: ["containers", container.id, "versions", container.rollout?.version ?? container.version],
    queryFn: ({ pageParam }) =>
      body(
        api.GET("/api/v1/containers/{container_id}/versions", {
          params: { path: at(container), query: { limit: PAGE, ...(pageParam ? { cursor: pageParam } : {}) } },
        }),
      ),
    initialPageParam: 0,
    getNextPageParam: (last) => (last.next_cursor ? Number(last.next_cursor) : undefined),
    refetchInterval: container.rollout ? OFTEN_MS : RARELY_MS,
  });

/** Another share or rule, and its end, one way or the other. */
export function useCanary(container: Container) {
  const queries = useQueryClient();
  const changed = (said: string) => ({
    onSuccess: async (now: Container) => {
      queries.setQueryData(["containers", container.id], now);
      await queries.invalidateQueries({ queryKey: ["containers"] });
      done(said);
    },
    onError: failed,
  });
  const params = { params: { path: at(container) } };
  return {
    change: useMutation({
      mutationFn: (wanted: Schemas["CanaryRequest"]) =>
        body(api.POST("/api/v1/containers/{container_id}/canary", { ...params, body: wanted })),
      ...changed("The canary is changed."),
    }),
    promote: useMutation({
      mutationFn: () => body(api.POST("/api/v1/containers/{container_id}/canary/promote", params)),
      ...changed("It takes over."),
    }),
    abort: useMutation({
      mutationFn: () => body(api.POST("/api/v1/containers/{container_id}/canary/abort", params)),
      ...changed("It goes; the version beside it serves all requests."),
    }),
  };
}

export function useRollBack(container: Container, after: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (version: number) =>
      body(api.POST("/api/v1/containers/{container_id}/rollback", { params: { path: at(container) }, body: { version } })),
    onSuccess: async (changed, version) => {
      queries.setQueryData(["containers", container.id], changed);
      await queries.invalidateQueries({ queryKey: ["containers"] });
      done(`It goes back to version ${version}.`);
      after();
    },
    onError: failed,
  });
}
