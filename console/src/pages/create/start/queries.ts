import { queryOptions } from "@tanstack/react-query";

import { api, body, type Schemas } from "@/api/client";

export type Template = Schemas["TemplateRead"];

export const templatesQuery = queryOptions({
  queryKey: ["templates"],
  queryFn: async () => (await body(api.GET("/api/v1/templates"))).items,
  staleTime: 60_000,
});
