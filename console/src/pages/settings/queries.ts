import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body, type Schemas } from "@/api/client";
import type { Container } from "@/api/queries";
import { done, failed } from "@/components/toasts";

export type StagedDraft = Schemas["Draft"];

const at = (container: Container) => ({ path: { container_id: container.id } });

/** Read again whenever the container says that its draft is another one, or is in another state. */
export const draftQuery = (container: Container) =>
  queryOptions({
    queryKey: ["containers", container.id, "draft", container.draft],
    queryFn: () => body(api.GET("/api/v1/containers/{container_id}/draft", { params: at(container) })),
  });

export function useStage(container: Container, patch: Schemas["SettingsPatch"], after: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () => body(api.PUT("/api/v1/containers/{container_id}/draft", { params: at(container), body: patch })),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["containers", container.id] });
      done("Staged. What runs is as before.");
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
