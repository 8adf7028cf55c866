import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body, type Schemas } from "@/api/client";
import { allPages, type Container, LIVE_MS, page } from "@/api/queries";
import { done, failed } from "@/components/toasts";

export type Cache = Schemas["Cache"];

const at = (container: Container) => ({ path: { container_id: container.id } });

export function useStage(container: Container, patch: Schemas["SettingsPatch"], after: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () => body(api.PUT("/api/v1/containers/{container_id}/draft", { params: at(container), body: patch })),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["containers", container.id] });
      done("Staged. What runs is as before until you apply it.");
      after();
    },
  });
}

export function useApplyDraft(container: Container) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (how: Partial<Schemas["ApplyRequest"]> & { strategy: Schemas["Strategy"] }) =>
      body(api.POST("/api/v1/containers/{container_id}/draft/apply", { params: at(container), body: how })),
    onSuccess: async (changed) => {
      queries.setQueryData(["containers", container.id], changed);
      await queries.invalidateQueries({ queryKey: ["containers"] });
    },
    onError: failed,
  });
}

export function useDiscardDraft(container: Container) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () => body(api.DELETE("/api/v1/containers/{container_id}/draft", { params: at(container) })),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["containers", container.id] });
      done("The staged changes are discarded.");
    },
    onError: failed,
  });
}

/** Of this container, one on each machine where it has run. Sizes are measured while nothing else of it changes, so they are asked for. */
export const cachesQuery = (organizationId: string, container: Container) =>
  queryOptions({
    queryKey: ["containers", container.id, "caches"],
    queryFn: async () => {
      const all = await allPages((cursor) =>
        body(
          api.GET("/api/v1/organizations/{organization_id}/caches", {
            params: { path: { organization_id: organizationId }, query: page(cursor) },
          }),
        ),
      );
      return all.filter((one) => one.container_id === container.id);
    },
    refetchInterval: ({ state }) => (state.data?.some((one) => one.deleting) ? LIVE_MS : LIVE_MS * 5),
  });

export function useDeleteCache(organizationId: string, cache: Cache, after: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () =>
      body(
        api.DELETE("/api/v1/organizations/{organization_id}/caches/{cache_id}", {
          params: { path: { organization_id: organizationId, cache_id: cache.id } },
        }),
      ),
    onSuccess: () => done(`The cache on ${cache.node} is being deleted.`),
    onError: failed,
    onSettled: async () => {
      after();
      // Also where it was refused: somebody else has begun to use it, or was quicker.
      await queries.invalidateQueries({ queryKey: ["containers", cache.container_id, "caches"] });
    },
  });
}
