/** Reads and changes of one container, for the Service tab and the dashboard alike. */
import { type QueryClient, queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body, type Schemas } from "@/api/client";
import { unlessTold } from "@/api/pace";
import { type Container, LIVE_MS } from "@/api/queries";
import { failed } from "@/components/toasts";

export type Replica = Schemas["Replica"];
export type Activity = Schemas["Activity"];
export type StagedDraft = Schemas["Draft"];

const at = (containerId: string) => ({ path: { container_id: containerId } });

export const replicasQuery = (containerId: string) =>
  queryOptions({
    queryKey: ["containers", containerId, "replicas"],
    queryFn: () => liveReplicas(containerId),
    refetchInterval: unlessTold(LIVE_MS),
  });

const REPLICAS_AT_ONCE = 200;

/** Every live one, and as many of those that ended as come with them. */
async function liveReplicas(containerId: string): Promise<Replica[]> {
  const found: Replica[] = [];
  let cursor: string | null | undefined;
  do {
    const page: Schemas["Page_Replica_"] = await body(
      api.GET("/api/v1/containers/{container_id}/replicas", {
        params: { ...at(containerId), query: { limit: REPLICAS_AT_ONCE, ...(cursor ? { cursor } : {}) } },
      }),
    );
    found.push(...page.items);
    cursor = page.next_cursor;
  } while (cursor && found.every((replica) => !replica.ended_at));
  return found;
}

export const activityQuery = (containerId: string, limit: number) =>
  queryOptions({
    queryKey: ["containers", containerId, "activity", limit],
    queryFn: async () =>
      (
        await body(
          api.GET("/api/v1/containers/{container_id}/activity", { params: { ...at(containerId), query: { limit } } }),
        )
      ).items,
    refetchInterval: unlessTold(LIVE_MS * 2),
  });

export const lastLinesQuery = (containerId: string, limit: number) =>
  queryOptions({
    queryKey: ["containers", containerId, "last lines", limit],
    queryFn: async () =>
      (
        await body(
          api.GET("/api/v1/containers/{container_id}/logs", { params: { ...at(containerId), query: { limit } } }),
        )
      ).items.toReversed(),
    refetchInterval: LIVE_MS * 2,
  });

/** Read again whenever the container says that its draft is another one, or is in another state. */
export const draftQuery = (container: Container) =>
  queryOptions({
    queryKey: ["containers", container.id, "draft", container.draft],
    queryFn: () => body(api.GET("/api/v1/containers/{container_id}/draft", { params: at(container.id) })),
  });

/** `move`: a restart on other machines than now. */
export type Action = "start" | "wake" | "stop" | "restart" | "move" | "delete";

/** The answer is the container as it is now, so the page changes at once and the next poll only confirms it. */
export function useContainerAction(containerId: string, after?: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (action: Action) => act(containerId, action),
    onSuccess: async (container) => {
      await taken(queries, container);
      after?.();
    },
    onError: failed,
  });
}

/** The same of any container. */
export function useAnyAction(after: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ containerId, action }: { containerId: string; action: Action }) => act(containerId, action),
    onSuccess: (container) => taken(queries, container),
    onError: failed,
    onSettled: after,
  });
}

async function taken(queries: QueryClient, container: Container): Promise<void> {
  queries.setQueryData(["containers", container.id], container);
  await queries.invalidateQueries({ queryKey: ["containers"] });
}

function act(containerId: string, action: Action): Promise<Container> {
  const params = at(containerId);
  switch (action) {
    case "start":
      return body(api.POST("/api/v1/containers/{container_id}/start", { params }));
    case "wake":
      return body(api.POST("/api/v1/containers/{container_id}/wake", { params }));
    case "stop":
      return body(api.POST("/api/v1/containers/{container_id}/stop", { params }));
    case "restart":
      return body(api.POST("/api/v1/containers/{container_id}/restart", { params }));
    case "move":
      return body(
        api.POST("/api/v1/containers/{container_id}/restart", { params, body: { avoid_current_nodes: true } }),
      );
    case "delete":
      return body(api.DELETE("/api/v1/containers/{container_id}", { params }));
  }
}

/** Applies the change that was shown, and no other, and starts the container. */
export function useFix(container: Container) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () =>
      body(
        api.POST("/api/v1/containers/{container_id}/fix", {
          params: at(container.id),
          body: container.fix,
        }),
      ),
    onSuccess: async (changed) => {
      queries.setQueryData(["containers", container.id], changed);
      await queries.invalidateQueries({ queryKey: ["containers"] });
    },
    onError: failed,
  });
}
