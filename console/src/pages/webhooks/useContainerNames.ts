import { useQueries, useQuery } from "@tanstack/react-query";

import { containersQuery, projectsQuery } from "@/api/queries";

/** By id, of all projects of the organization: events are of each of them. */
export function useContainerNames(organizationId: string): Map<string, string> {
  const { data: projects = [] } = useQuery(projectsQuery(organizationId));
  return useQueries({
    queries: projects.map((one) => containersQuery(one.id)),
    combine: (found) => new Map(found.flatMap(({ data = [] }) => data.map((one) => [one.id, one.name] as const))),
  });
}
