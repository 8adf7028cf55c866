/** The reads that several pages share. A page's own reads stand in its folder, made the same way: one `queryOptions`
 * per route, its key beginning with the noun, so that `invalidateQueries({ queryKey: ["containers"] })` says what it means. */
import { keepPreviousData, QueryClient, queryOptions } from "@tanstack/react-query";

import { api, body, rememberCsrfToken, type Schemas } from "./client";
import { whenItReturns } from "./connection";
import { unlessTold } from "./pace";
import { Problem } from "./problem";

export type Container = Schemas["Container"];
export type Project = Schemas["Project"];
export type Organization = Schemas["Organization"];
export type Billing = Schemas["Billing"];
export type InstanceType = Schemas["InstanceTypeRead"];
export type Template = Schemas["TemplateRead"];

export const LIVE_MS = 2_000;
const LARGEST_PAGE = 200;

export const queryClient = new QueryClient({
  defaultOptions: {
    // Asked whatever the browser believes about its connection: what fails says so, and nothing is kept for later.
    mutations: { networkMode: "always" },
    queries: {
      networkMode: "always",
      staleTime: 5_000,
      // What the server refused stays refused, and what a lost connection kept away is read when it returns.
      retry: (count, error) => count < 3 && (!(error instanceof Problem) || error.status >= 502),
    },
  },
});

whenItReturns(() => void queryClient.invalidateQueries());

export const meQuery = queryOptions({
  queryKey: ["me"],
  queryFn: async () => {
    const me = await body(api.GET("/api/v1/me"));
    rememberCsrfToken(me.csrf_token);
    return me;
  },
  staleTime: 60_000,
});

export const organizationsQuery = queryOptions({
  queryKey: ["organizations"],
  queryFn: () => allPages((cursor) => body(api.GET("/api/v1/organizations", { params: { query: page(cursor) } }))),
  staleTime: 60_000,
});

export const projectQuery = (projectId: string) =>
  queryOptions({
    queryKey: ["projects", projectId],
    queryFn: () => body(api.GET("/api/v1/projects/{project_id}", { params: { path: { project_id: projectId } } })),
    staleTime: 60_000,
  });

export const projectsQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["projects", { organizationId }],
    queryFn: () =>
      allPages((cursor) =>
        body(
          api.GET("/api/v1/organizations/{organization_id}/projects", {
            params: { path: { organization_id: organizationId }, query: page(cursor) },
          }),
        ),
      ),
    staleTime: 60_000,
  });

export const membersQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["members", organizationId],
    queryFn: () =>
      allPages((cursor) =>
        body(
          api.GET("/api/v1/organizations/{organization_id}/members", {
            params: { path: { organization_id: organizationId }, query: page(cursor) },
          }),
        ),
      ),
  });

export const containersQuery = (projectId: string) =>
  queryOptions({
    queryKey: ["containers", { projectId }],
    queryFn: () =>
      allPages((cursor) =>
        body(
          api.GET("/api/v1/projects/{project_id}/containers", {
            params: { path: { project_id: projectId }, query: page(cursor) },
          }),
        ),
      ),
    refetchInterval: unlessTold(LIVE_MS),
    placeholderData: keepPreviousData,
  });

export const containerQuery = (containerId: string) =>
  queryOptions({
    queryKey: ["containers", containerId],
    queryFn: () =>
      body(api.GET("/api/v1/containers/{container_id}", { params: { path: { container_id: containerId } } })),
    refetchInterval: unlessTold(LIVE_MS),
  });

export const instanceTypesQuery = queryOptions({
  queryKey: ["instance-types"],
  queryFn: async () => (await body(api.GET("/api/v1/instance-types"))).items,
  refetchInterval: 15_000,
});

/** The servers that a model can be started with. */
export const templatesQuery = queryOptions({
  queryKey: ["templates"],
  queryFn: async () => (await body(api.GET("/api/v1/templates"))).items,
  staleTime: 60_000,
});

export const billingQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["billing", organizationId],
    queryFn: () =>
      body(
        api.GET("/api/v1/organizations/{organization_id}/billing", {
          params: { path: { organization_id: organizationId } },
        }),
      ),
    refetchInterval: 15_000,
  });

export function page(cursor: string | null): { limit: number; cursor?: string } {
  return cursor === null ? { limit: LARGEST_PAGE } : { limit: LARGEST_PAGE, cursor };
}

/** Every item of a list that a person looks at as a whole. */
export async function allPages<T>(
  read: (cursor: string | null) => Promise<{ items: T[]; next_cursor?: string | null }>,
): Promise<T[]> {
  const items: T[] = [];
  let cursor: string | null = null;
  do {
    const found = await read(cursor);
    items.push(...found.items);
    cursor = found.next_cursor ?? null;
  } while (cursor !== null);
  return items;
}
