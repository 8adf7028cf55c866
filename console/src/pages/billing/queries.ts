import { infiniteQueryOptions, queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body, type Schemas } from "@/api/client";

export type TopUp = Schemas["TopUp"];
export type Entry = Schemas["LedgerEntry"];
export type UsageItem = Schemas["UsageItem"];

const ENTRIES = 50;
const at = (organizationId: string) => ({ organization_id: organizationId });

export const entriesQuery = (organizationId: string) =>
  infiniteQueryOptions({
    queryKey: ["billing", organizationId, "entries"],
    queryFn: ({ pageParam }) =>
      body(
        api.GET("/api/v1/organizations/{organization_id}/billing/entries", {
          params: { path: at(organizationId), query: { limit: ENTRIES, ...(pageParam ? { cursor: pageParam } : {}) } },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor ?? undefined,
    refetchInterval: 15_000,
  });

/** Both days inclusive, in UTC, as they are billed. */
export const usageQuery = (organizationId: string, from: string, to: string) =>
  queryOptions({
    queryKey: ["billing", organizationId, "usage", from, to],
    queryFn: () =>
      body(
        api.GET("/api/v1/organizations/{organization_id}/billing/usage", {
          params: { path: at(organizationId), query: { from, to } },
        }),
      ),
    refetchInterval: 60_000,
  });

export const topUpsQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["billing", organizationId, "top-ups"],
    queryFn: async () =>
      (
        await body(
          api.GET("/api/v1/organizations/{organization_id}/billing/top-ups", {
            params: { path: at(organizationId), query: { limit: 20 } },
          }),
        )
      ).items,
    refetchInterval: 15_000,
  });

export function useTopUp(organizationId: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (wanted: Schemas["TopUpCreate"]) =>
      body(
        api.POST("/api/v1/organizations/{organization_id}/billing/top-ups", {
          params: { path: at(organizationId) },
          body: wanted,
        }),
      ),
    onSuccess: (made) => {
      if (made.checkout_url) window.location.assign(made.checkout_url);
      return queries.invalidateQueries({ queryKey: ["billing"] });
    },
  });
}
