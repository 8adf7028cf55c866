import { infiniteQueryOptions } from "@tanstack/react-query";

import { api, body, type Schemas } from "@/api/client";

export type Capsule = Schemas["Capsule"];
export type ProbeRun = Capsule["probes"][number];

const PAGE = 20;

export const capsulesQuery = (containerId: string) =>
  infiniteQueryOptions({
    queryKey: ["containers", containerId, "capsules"],
    queryFn: ({ pageParam }) =>
      body(
        api.GET("/api/v1/containers/{container_id}/capsules", {
          params: { path: { container_id: containerId }, query: { limit: PAGE, ...(pageParam ? { cursor: pageParam } : {}) } },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor ?? undefined,
    refetchInterval: 15_000,
  });
