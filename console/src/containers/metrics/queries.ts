/** What a container did, for its charts. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";

import { api, body, type Schemas } from "@/api/client";
import type { Container } from "@/api/queries";

import { measured } from "./measured";
import { existingIn, type Span } from "./range";

export type Autoscaling = Schemas["Autoscaling"];
export type Decision = Schemas["AutoscalingDecision"];

/** Response times and statuses come in steps of 10 s. */
const FINEST_S = 10;
const LIVE_S = [5, 30] as const;
const POINTS = 360;
const DECISIONS = 200;

/** From the container's beginning at the earliest: what was before it is not zero, it is nothing. */
export const metricsQuery = (container: Pick<Container, "id" | "created_at">, span: Span, stepS = FINEST_S) =>
  queryOptions({
    queryKey: ["containers", container.id, "metrics", span, stepS],
    queryFn: async () => {
      const [from, to] = existingIn(span, Date.parse(container.created_at), Date.now());
      const query = { from: new Date(from).toISOString(), to: new Date(to).toISOString(), step: stepS };
      const params = { path: { container_id: container.id }, query };
      return measured(await body(api.GET("/api/v1/containers/{container_id}/metrics", { params })), from, to);
    },
    placeholderData: keepPreviousData,
    refetchInterval: liveInterval(span, stepS),
  });

export const autoscalingQuery = (containerId: string) =>
  queryOptions({
    queryKey: ["containers", containerId, "autoscaling"],
    queryFn: () =>
      body(
        api.GET("/api/v1/containers/{container_id}/autoscaling", {
          params: { path: { container_id: containerId }, query: { limit: DECISIONS } },
        }),
      ),
    refetchInterval: LIVE_S[0] * 1000,
  });

/** As often as a new point can be there. */
function liveInterval({ seconds, until }: Span, stepS: number): number | false {
  if (until !== null) return false;
  return Math.min(Math.max(seconds / POINTS, stepS / 2, LIVE_S[0]), LIVE_S[1]) * 1000;
}
