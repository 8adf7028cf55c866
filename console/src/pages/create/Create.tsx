import { useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";

import { useProject } from "@/addresses/useProject";
import { containerQuery } from "@/api/queries";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { type Draft, EMPTY, fromContainer } from "@/containers/form/draft";

import { CreateFlow } from "./CreateFlow";
import { keptDraft } from "./keptDraft";
import { FROM_A_MODEL, OWN_IMAGE } from "./start/origin";

/** A new container, from nothing, from the draft that was left, or from another container. */
export function Create() {
  const { project } = useProject();
  const { copy } = useSearch({ strict: false }) as { copy?: string };
  if (copy) return <CreateCopy projectId={project.id} containerId={copy} />;
  const begin = keptDraft(project.id) ?? { draft: EMPTY, origin: FROM_A_MODEL };
  return <CreateFlow key={project.id} projectId={project.id} begin={begin} />;
}

function CreateCopy({ projectId, containerId }: { projectId: string; containerId: string }) {
  const { data: container, error } = useQuery({ ...containerQuery(containerId), refetchInterval: false });
  if (error) return <ErrorNotice error={error} />;
  if (!container) return <Waiting />;
  // Its secrets stay its own: names of variables come along, values and the registry's password do not.
  const draft: Draft = {
    ...fromContainer(container),
    name: `${container.name}-copy`.slice(0, 63),
    env: Object.keys(container.env).map((name) => ({ name, value: "" })),
  };
  return <CreateFlow key={containerId} projectId={projectId} begin={{ draft, origin: OWN_IMAGE }} />;
}
