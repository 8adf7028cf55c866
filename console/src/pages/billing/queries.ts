import { infiniteQueryOptions, queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body, type Schemas } from "@/api/client";
import { dollars } from "@/components/Money";
import { done } from "@/components/toasts";

export type TopUp = Schemas["TopUp"];
export type Entry = Schemas["LedgerEntry"];
export type Limit = Schemas["SpendingLimit"];
export type UsageItem = Schemas["UsageItem"];

const ENTRIES = 100;
const at = (organizationId: string) => ({ organization_id: organizationId });

/** Hours, everything else, or all of it: only then the balance after each is known. */
export type EntrySort = "all" | "usage" | "other";

export const entriesQuery = (organizationId: string, sort: EntrySort) =>
  infiniteQueryOptions({
    queryKey: ["billing", organizationId, "entries", sort],
    queryFn: ({ pageParam }) =>
      body(
        api.GET("/api/v1/organizations/{organization_id}/billing/entries", {
          params: { path: at(organizationId), query: { limit: ENTRIES, ...(sort === "all" ? {} : { only: sort }), ...(pageParam ? { cursor: pageParam } : {}) } },
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

export const balanceQuery = (organizationId: string, from: string, to: string) =>
  queryOptions({
    queryKey: ["billing", organizationId, "balance", from, to],
    queryFn: async () =>
      (
        await body(
          api.GET("/api/v1/organizations/{organization_id}/billing/balance", {
            params: { path: at(organizationId), query: { from, to } },
          }),
        )
      ).items,
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

const ASK_AGAIN_MS = 3_000;
const ASK_FOR_MS = 60_000;

/** One that was just paid by card: asking makes the service ask the card payments' provider. */
export const paidTopUpQuery = (organizationId: string, topUpId: string, since: number) =>
  queryOptions({
    queryKey: ["billing", organizationId, "top-ups", topUpId],
    queryFn: () =>
      body(
        api.GET("/api/v1/organizations/{organization_id}/billing/top-ups/{top_up_id}", {
          params: { path: { ...at(organizationId), top_up_id: topUpId } },
        }),
      ),
    refetchInterval: (query) =>
      query.state.data?.state === "pending" && Date.now() - since < ASK_FOR_MS ? ASK_AGAIN_MS : false,
  });

export const limitsQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["billing", organizationId, "limits"],
    queryFn: () =>
      body(
        api.GET("/api/v1/organizations/{organization_id}/billing/limits", { params: { path: at(organizationId) } }),
      ),
    refetchInterval: 30_000,
  });

/** Of the organization, or of one of its projects; null takes it away. */
export function usePutLimit(organizationId: string, limit: Limit, after: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (microusd: number | null) => {
      const path = at(organizationId);
      const change = { limit_microusd: microusd };
      if (limit.scope_id === organizationId)
        return body(api.PUT("/api/v1/organizations/{organization_id}/billing/limits", { params: { path }, body: change }));
      return body(
        api.PUT("/api/v1/organizations/{organization_id}/billing/limits/{project_id}", {
          params: { path: { ...path, project_id: limit.scope_id } },
          body: change,
        }),
      );
    },
    onSuccess: async (_, microusd) => {
      await queries.invalidateQueries({ queryKey: ["billing"] });
      done(microusd === null ? `${limit.name}: no limit.` : `${limit.name}: ${dollars(microusd)} a month.`);
      after();
    },
  });
}

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
