import { useSuspenseQuery } from "@tanstack/react-query";
import { Navigate, notFound, useParams } from "@tanstack/react-router";

import { paths } from "@/addresses/paths";
import { organizationsQuery, projectsQuery } from "@/api/queries";

import { Welcome } from "./Welcome";

/** An organization by itself: its first project, else the welcome that makes one, with the way back to where one came from. */
export function OrganizationHome() {
  const { organizationId } = useParams({ strict: false }) as { organizationId: string };
  const { data: organizations } = useSuspenseQuery(organizationsQuery);
  const organization = organizations.find((one) => one.id === organizationId);
  if (!organization) throw notFound();
  const { data: projects } = useSuspenseQuery(projectsQuery(organizationId));
  const [first] = projects;
  if (first) return <Navigate to={paths.service(first.id)} replace />;
  return <Welcome organization={organization} hasOthers={organizations.length > 1} />;
}
