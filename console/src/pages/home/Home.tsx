import { useSuspenseQuery } from "@tanstack/react-query";
import { Navigate } from "@tanstack/react-router";

import { paths } from "@/addresses/paths";
import { organizationsQuery, projectsQuery, queryClient } from "@/api/queries";
import { lastProject } from "@/frame/lastProject";

import { NoOrganization } from "./NoOrganization";
import { Welcome } from "./Welcome";

/** Where somebody lands: the project they used last, else their first one, else the welcome that makes one; without any organization, what makes that. */
export function Home() {
  const { data } = useSuspenseQuery({
    queryKey: ["projects", "of all organizations"],
    queryFn: async () => {
      const organizations = await queryClient.fetchQuery(organizationsQuery);
      const projects = await Promise.all(organizations.map((one) => queryClient.fetchQuery(projectsQuery(one.id))));
      return { organizations, projects: projects.flat() };
    },
  });
  const last = lastProject();
  const project = data.projects.find((one) => one.id === last) ?? data.projects[0];
  if (project) return <Navigate to={paths.service(project.id)} replace />;
  const organization = data.organizations.find((one) => one.role === "admin") ?? data.organizations[0];
  return organization ? <Welcome organization={organization} /> : <NoOrganization />;
}
