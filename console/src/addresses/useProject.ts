import { useSuspenseQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";

import { organizationsQuery, projectQuery } from "@/api/queries";

/** The project in the address and the organization that it belongs to, with the reader's role there. */
export function useProject() {
  const { projectId } = useParams({ strict: false }) as { projectId: string };
  const { data: project } = useSuspenseQuery(projectQuery(projectId));
  const { data: organizations } = useSuspenseQuery(organizationsQuery);
  const organization = organizations.find((one) => one.id === project.organization_id);
  return { project, organization, isAdmin: organization?.role === "admin" };
}
