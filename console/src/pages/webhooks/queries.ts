import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body, type Schemas } from "@/api/client";
import { allPages, page } from "@/api/queries";
import { done, failed } from "@/components/toasts";

export type Webhook = Schemas["Webhook"];
export type Delivery = Schemas["Delivery"];

const of = (organizationId: string) => ({ organization_id: organizationId });
const at = (organizationId: string, webhook: Webhook) => ({
  path: { ...of(organizationId), webhook_id: webhook.id },
});

export const webhooksQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["webhooks", organizationId],
    queryFn: () =>
      allPages((cursor) =>
        body(
          api.GET("/api/v1/organizations/{organization_id}/webhooks", {
            params: { path: of(organizationId), query: page(cursor) },
          }),
        ),
      ),
  });

export const deliveriesQuery = (organizationId: string, webhook: Webhook) =>
  queryOptions({
    queryKey: ["webhooks", organizationId, webhook.id, "deliveries"],
    queryFn: async () =>
      (
        await body(
          api.GET("/api/v1/organizations/{organization_id}/webhooks/{webhook_id}/deliveries", {
            params: { ...at(organizationId, webhook), query: { limit: 50 } },
          }),
        )
      ).items,
    refetchInterval: 5_000,
  });

export function useCreateWebhook(organizationId: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (wanted: Schemas["WebhookCreate"]) =>
      body(
        api.POST("/api/v1/organizations/{organization_id}/webhooks", {
          params: { path: of(organizationId) },
          body: wanted,
        }),
      ),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["webhooks"] }),
  });
}

type Action = "enable" | "disable" | "test" | "remove";

const DONE: Record<Action, string> = {
  enable: "Events are sent there again.",
  disable: "Nothing is sent there until you enable it.",
  test: "A test event is on its way. How it went appears in the deliveries.",
  remove: "The webhook is removed.",
};

export function useWebhookAction(organizationId: string, webhook: Webhook, after: () => void = () => undefined) {
  const queries = useQueryClient();
  const params = at(organizationId, webhook);
  return useMutation({
    mutationFn: async (action: Action) => {
      const one = "/api/v1/organizations/{organization_id}/webhooks/{webhook_id}";
      if (action === "remove") await api.DELETE(one, { params });
      else if (action === "test") await api.POST(`${one}/test`, { params });
      else await api.PATCH(one, { params, body: { enabled: action === "enable" } });
    },
    onSuccess: async (_, action) => {
      await queries.invalidateQueries({ queryKey: ["webhooks"] });
      done(DONE[action]);
      after();
    },
    onError: failed,
  });
}
