/** What an organization lends, and what it earns with that. */
import { infiniteQueryOptions, queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body, type Schemas } from "@/api/client";
import { allPages, page } from "@/api/queries";
import { done } from "@/components/toasts";
import { isExpected, type JoinCommand } from "@/machines/machine";

export type Earnings = Schemas["Earnings"];
export type Payout = Schemas["Payout"];
export type PayoutAccount = Schemas["PayoutAccount"];
export type MonthEarnings = Schemas["MonthEarnings"];

const LIVE_MS = 5_000;
/** Somebody sits there and waits for it. */
const EXPECTED_MS = 2_000;
const MONEY_MS = 30_000;
const ENTRIES = 50;
const at = (organizationId: string) => ({ organization_id: organizationId });

export const machinesQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["machines", organizationId],
    queryFn: () =>
      allPages((cursor) =>
        body(
          api.GET("/api/v1/organizations/{organization_id}/machines", {
            params: { path: at(organizationId), query: page(cursor) },
          }),
        ),
      ),
    refetchInterval: (query) => (query.state.data?.some(isExpected) ? EXPECTED_MS : LIVE_MS),
  });

/** The sums, and the movements that they come from. */
export const earningsQuery = (organizationId: string) =>
  infiniteQueryOptions({
    queryKey: ["earnings", organizationId, "entries"],
    queryFn: ({ pageParam }) =>
      body(
        api.GET("/api/v1/organizations/{organization_id}/earnings", {
          params: { path: at(organizationId), query: { limit: ENTRIES, ...(pageParam ? { cursor: pageParam } : {}) } },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor ?? undefined,
    refetchInterval: MONEY_MS,
  });

/** Of this month, in UTC. */
export const monthQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["earnings", organizationId, "month"],
    queryFn: () =>
      body(api.GET("/api/v1/organizations/{organization_id}/earnings/machines", { params: { path: at(organizationId) } })),
    refetchInterval: MONEY_MS,
  });

export const statementsQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["earnings", organizationId, "statements"],
    queryFn: async () =>
      (
        await body(
          api.GET("/api/v1/organizations/{organization_id}/earnings/statements", { params: { path: at(organizationId) } }),
        )
      ).items,
  });

export const payoutAccountQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["earnings", organizationId, "account"],
    queryFn: () =>
      body(api.GET("/api/v1/organizations/{organization_id}/payout-account", { params: { path: at(organizationId) } })),
  });

export const payoutsQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["earnings", organizationId, "payouts"],
    queryFn: () =>
      allPages((cursor) =>
        body(
          api.GET("/api/v1/organizations/{organization_id}/payouts", {
            params: { path: at(organizationId), query: page(cursor) },
          }),
        ),
      ),
    refetchInterval: MONEY_MS,
  });

export const wishes = {
  lend: (organizationId: string, name: string | null) =>
    body(
      api.POST("/api/v1/organizations/{organization_id}/machines", {
        params: { path: at(organizationId) },
        body: { infrastructure: "community", name },
      }),
    ),
  nameAccount: (organizationId: string, account: Schemas["PayoutAccountWrite"]) =>
    body(
      api.PUT("/api/v1/organizations/{organization_id}/payout-account", {
        params: { path: at(organizationId) },
        body: account,
      }),
    ),
  payOut: (organizationId: string) =>
    body(api.POST("/api/v1/organizations/{organization_id}/payouts", { params: { path: at(organizationId) } })),
};

/** One change of the owner's: says that it is done, and what follows from it is read again. */
export function useWish<Wanted>(noun: "machines" | "earnings", wish: (wanted: Wanted) => Promise<unknown>, sentence: string, after: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: wish,
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: [noun] });
      done(sentence);
      after();
    },
  });
}

/** Asks for the line that lets one machine in. */
export function useJoinCommand(ask: () => Promise<JoinCommand>) {
  const queries = useQueryClient();
  return useMutation({ mutationFn: ask, onSuccess: () => queries.invalidateQueries({ queryKey: ["machines"] }) });
}
