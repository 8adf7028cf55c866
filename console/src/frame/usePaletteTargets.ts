import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";

import { dashboardTabs } from "@/addresses/dashboardTabs";
import { handbook } from "@/addresses/handbook";
import { paths } from "@/addresses/paths";
import { sectionsFor } from "@/addresses/sections";
import { useProject } from "@/addresses/useProject";
import { type Container, containersQuery, meQuery, projectsQuery } from "@/api/queries";
import { isStopped } from "@/components/state";

import type { Target } from "./found";

/** Everything of this project that one can go to or do, the container that is open first. */
export function usePaletteTargets(): Target[] {
  const { project, isAdmin } = useProject();
  const { containerId } = useParams({ strict: false }) as { containerId?: string };
  const containers = useQuery(containersQuery(project.id)).data ?? [];
  const { data: projects } = useSuspenseQuery(projectsQuery(project.organization_id));
  const { data: me } = useSuspenseQuery(meQuery);
  const current = containers.find((one) => one.id === containerId);
  const others = containers.filter((one) => one !== current);
  return [
    // A page first: whoever opens the palette and presses Enter must not stop anything.
    ...(current ? [...pagesOf(current), ...actionsOn(current)] : []),
    ...containers.map((one) => ({ label: one.name, kind: "Container", open: { to: paths.container(project.id, one.id) } })),
    { label: "Create a container", kind: "Action", open: { to: paths.create(project.id) } },
    ...(isAdmin ? [{ label: "New project", kind: "Action", open: { act: "new project" } }] : []),
    ...sectionsFor(isAdmin, me.community_machines).map((one) => ({
      label: one.label,
      kind: "Page",
      open: { to: paths.section(project.id, one.section) },
    })),
    ...projects
      .filter((one) => one.id !== project.id)
      .map((one) => ({ label: one.name, kind: "Project", open: { to: paths.service(one.id) } })),
    { label: "Account", kind: "Page", open: { to: paths.account() } },
    { label: "Handbook", kind: "Opens beside", open: { href: handbook.home } },
    ...others.flatMap((one) => [...actionsOn(one), ...pagesOf(one)].map((target) => ({ ...target, whenAsked: true }))),
  ];
}

/** Of a container that is open they are offered at once, so that "logs" and Enter is enough. */
function pagesOf(container: Container): Target[] {
  return dashboardTabs.map(({ tab, label }) => ({
    label: `${label} of ${container.name}`,
    kind: "Page",
    open: { to: paths.dashboard(container.project_id, container.id, tab) },
  }));
}

function actionsOn(container: Container): Target[] {
  const action = (act: string, verb: string): Target => ({
    label: `${verb} ${container.name}`,
    kind: "Action",
    open: { act, containerId: container.id },
  });
  const { state } = container;
  if (state === "DELETING") return [];
  if (isStopped(state)) return [action("start", "Start")];
  return [
    ...(state === "RUNNING" ? [action("restart", "Restart")] : []),
    ...(state === "STOPPING" ? [] : [action("stop", "Stop")]),
  ];
}
