import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body, type Schemas } from "@/api/client";
import { allPages, page } from "@/api/queries";
import { done, failed } from "@/components/toasts";

export type ApiKey = Schemas["ApiKey"];
export type NewKey = Schemas["ApiKeyCreated"];

export const apiKeysQuery = (projectId: string) =>
  queryOptions({
    queryKey: ["api-keys", { projectId }],
    queryFn: () =>
      allPages((cursor) =>
        body(
          api.GET("/api/v1/projects/{project_id}/api-keys", {
            params: { path: { project_id: projectId }, query: page(cursor) },
          }),
        ),
      ),
    refetchInterval: 30_000,
  });

const at = (key: ApiKey) => ({ path: { key_id: key.id } });

export function useCreateKey(projectId: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (wanted: Schemas["ApiKeyCreate"]) =>
      body(
        api.POST("/api/v1/projects/{project_id}/api-keys", {
          params: { path: { project_id: projectId } },
          body: wanted,
        }),
      ),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["api-keys"] }),
  });
}

export function useRotateKey(key: ApiKey) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (overlapS: number) =>
      body(api.POST("/api/v1/api-keys/{key_id}/rotate", { params: at(key), body: { overlap_s: overlapS } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["api-keys"] }),
  });
}

export function useDisableKey(key: ApiKey) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (disabled: boolean) =>
      // Only what is sent changes; the name and the end stay as they are.
      body(
        api.PATCH("/api/v1/api-keys/{key_id}", {
          params: at(key),
          body: { disabled } as Schemas["ApiKeyPatch"],
        }),
      ),
    onSuccess: async (changed) => {
      await queries.invalidateQueries({ queryKey: ["api-keys"] });
      done(changed.status === "disabled" ? `${key.name} is disabled.` : `${key.name} is active again.`);
    },
    onError: failed,
  });
}

export function useRevokeKey(key: ApiKey, after: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () => body(api.DELETE("/api/v1/api-keys/{key_id}", { params: at(key) })),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["api-keys"] });
      done(`${key.name} is revoked.`);
      after();
    },
    onError: failed,
  });
}
