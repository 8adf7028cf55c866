import { useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body, type Schemas } from "@/api/client";
import type { Container } from "@/api/queries";
import { done } from "@/components/toasts";

export type Policy = Schemas["ScalingPolicy"];
export type Replay = Schemas["Replay"];

/** How far back a replay goes. */
export const BACK = [
  { value: "6", label: "Last 6 hours" },
  { value: "24", label: "Last 24 hours" },
  { value: "168", label: "Last 7 days" },
];
const HOUR_MS = 3_600_000;
const SAFETY_MS = 60_000;

/** What another policy would have done. Changes nothing. */
export function useReplay(container: Container) {
  return useMutation({
    mutationFn: ({ policy, hours }: { policy: Policy; hours: number }) =>
      body(
        api.POST("/api/v1/containers/{container_id}/autoscaling/replay", {
          params: { path: { container_id: container.id } },
          // Seven days to the second would be too long ago when the request arrives.
          body: {
            ...policy,
            since: new Date(Date.now() - hours * HOUR_MS + SAFETY_MS).toISOString(),
            forecast: true,
          },
        }),
      ),
  });
}

/** Takes effect while it runs. */
export function useScale(container: Container) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (policy: Policy) =>
      body(
        api.POST("/api/v1/containers/{container_id}/scale", {
          params: { path: { container_id: container.id } },
          body: policy,
        }),
      ),
    onSuccess: async (changed) => {
      queries.setQueryData(["containers", container.id], changed);
      done(`${container.name} scales by the new policy.`);
      await queries.invalidateQueries({ queryKey: ["containers"] });
    },
  });
}
