import { queryOptions } from "@tanstack/react-query";

import { api, body } from "@/api/client";

/** How people sign in here, as the operator has set it up. */
export const providersQuery = queryOptions({
  queryKey: ["providers"],
  queryFn: () => body(api.GET("/api/v1/auth/providers")),
  staleTime: Infinity,
});
