import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body, type Schemas } from "@/api/client";
import { done } from "@/components/toasts";

export type SavedCard = Schemas["SavedCard"];
export type AutoTopUp = Schemas["AutoTopUp"];

const CARD = "/api/v1/organizations/{organization_id}/billing/card";
const AUTO_TOP_UP = "/api/v1/organizations/{organization_id}/billing/auto-top-up";
const at = (organizationId: string) => ({ params: { path: { organization_id: organizationId } } });

export const cardQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["billing", organizationId, "card"],
    queryFn: () => body(api.GET(CARD, at(organizationId))),
  });

export const autoTopUpQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["billing", organizationId, "auto-top-up"],
    queryFn: () => body(api.GET(AUTO_TOP_UP, at(organizationId))),
    refetchInterval: 30_000,
  });

export function useCard(organizationId: string, after: () => void) {
  const queries = useQueryClient();
  return {
    save: useMutation({
      mutationFn: () => body(api.POST(CARD, at(organizationId))),
      onSuccess: ({ checkout_url: url }) => window.location.assign(url),
    }),
    remove: useMutation({
      mutationFn: () => body(api.DELETE(CARD, at(organizationId))),
      onSuccess: async () => {
        await queries.invalidateQueries({ queryKey: ["billing"] });
        done("The card is removed.");
        after();
      },
    }),
  };
}

export function useAutoTopUp(organizationId: string, after: () => void = () => undefined) {
  const queries = useQueryClient();
  const read = () => queries.invalidateQueries({ queryKey: ["billing"] });
  return {
    agree: useMutation({
      mutationFn: (change: Schemas["AutoTopUpChange"]) =>
        body(api.PUT(AUTO_TOP_UP, { ...at(organizationId), body: change })),
      onSuccess: async () => {
        await read();
        after();
      },
    }),
    switchOff: useMutation({
      mutationFn: () => body(api.DELETE(AUTO_TOP_UP, at(organizationId))),
      onSuccess: async () => {
        await read();
        done("Nothing is charged automatically any more.");
      },
    }),
  };
}
