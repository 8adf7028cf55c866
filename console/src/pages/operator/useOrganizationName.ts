import { useQuery } from "@tanstack/react-query";

import { allOrganizationsQuery } from "./queries";

/** Ids are what the API answers with; people know names. */
export function useOrganizationName(): (organizationId: string) => string {
  const organizations = useQuery(allOrganizationsQuery).data;
  const names = new Map(organizations?.map((one) => [one.id, one.name]));
  return (organizationId) => names.get(organizationId) ?? organizationId;
}
