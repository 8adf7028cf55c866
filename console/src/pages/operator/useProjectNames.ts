import { useQueries } from "@tanstack/react-query";

import { containersOfQuery } from "./queries";

/** By id, of those projects of the organizations that have a container: the containers are what names them. */
export function useProjectNames(organizationIds: string[]): Map<string, string> {
  return useQueries({
    queries: [...new Set(organizationIds)].map(containersOfQuery),
    combine: (found) => new Map(found.flatMap(({ data = [] }) => data.map((one) => [one.project_id, one.project_name] as const))),
  });
}
