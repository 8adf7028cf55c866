import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body, type Schemas } from "@/api/client";
import { allPages, page } from "@/api/queries";
import { done } from "@/components/toasts";

export type BillingDetails = Schemas["BillingDetails"];

const path = (organizationId: string) => ({ organization_id: organizationId });

export const invoicesQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["billing", organizationId, "invoices"],
    queryFn: async () =>
      (
        await body(
          api.GET("/api/v1/organizations/{organization_id}/billing/invoices", { params: { path: path(organizationId) } }),
        )
      ).items,
  });

export const receiptsQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["billing", organizationId, "receipts"],
    queryFn: () =>
      allPages((cursor) =>
        body(
          api.GET("/api/v1/organizations/{organization_id}/billing/receipts", {
            params: { path: path(organizationId), query: page(cursor) },
          }),
        ),
      ),
  });

export const detailsQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["billing", organizationId, "details"],
    queryFn: () =>
      body(api.GET("/api/v1/organizations/{organization_id}/billing/details", { params: { path: path(organizationId) } })),
  });

export function usePutDetails(organizationId: string, after: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (details: BillingDetails) =>
      body(
        api.PATCH("/api/v1/organizations/{organization_id}/billing/details", {
          params: { path: path(organizationId) },
          body: details,
        }),
      ),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["billing"] });
      done("Saved. The next documents show it.");
      after();
    },
  });
}
