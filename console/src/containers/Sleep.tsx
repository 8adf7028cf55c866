import { queryOptions, useQuery } from "@tanstack/react-query";

import { api, body } from "@/api/client";
import { type Container, LIVE_MS } from "@/api/queries";
import { dollars } from "@/components/Money";

export const savingsQuery = (containerId: string) =>
  queryOptions({
    queryKey: ["containers", containerId, "savings"],
    queryFn: () =>
      body(api.GET("/api/v1/containers/{container_id}/savings", { params: { path: { container_id: containerId } } })),
    refetchInterval: LIVE_MS * 10,
  });

/** When it sleeps, and what that saved. */
export function SleepFact({ container }: { container: Container }) {
  const sleeps = container.sleep_after_s;
  const savings = useQuery({ ...savingsQuery(container.id), enabled: sleeps !== null }).data;
  if (sleeps === null) return "never";
  const saved = savings && savings.sleeps > 0 ? `, ${dollars(savings.total_microusd)} saved in 90 days` : "";
  return `after ${idleness(sleeps)} without a request${saved}`;
}

function idleness(seconds: number): string {
  return seconds % 60 === 0 ? `${seconds / 60} min` : `${seconds} s`;
}
