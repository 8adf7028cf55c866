import { useMediaQuery } from "@mantine/hooks";
import { useIsMutating, useQuery } from "@tanstack/react-query";
import { Navigate } from "@tanstack/react-router";

import { paths } from "@/addresses/paths";
import { useProject } from "@/addresses/useProject";
import { containersQuery } from "@/api/queries";

import { DEPLOYS_EXAMPLE, FirstRun } from "./FirstRun";

/** No container is chosen: on a wide screen the first one is, and where there is none, the way to it is shown. */
export function ServiceIndex() {
  const { project } = useProject();
  const { data: containers } = useQuery(containersQuery(project.id));
  const isWide = useMediaQuery("(min-width: 768px)", undefined, { getInitialValueInEffect: false });
  const isDeployed = useIsMutating({ mutationKey: DEPLOYS_EXAMPLE }) > 0;
  const first = isDeployed ? undefined : containers?.[0];
  if (first && isWide) return <Navigate to={paths.container(project.id, first.id)} replace />;
  if (!containers || first) return null;
  return <FirstRun projectId={project.id} />;
}
