import { useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { useState } from "react";

import type { CreateSearch } from "@/addresses/paths";
import { useProject } from "@/addresses/useProject";
import { containerQuery } from "@/api/queries";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { type Draft, EMPTY, fromContainer } from "@/containers/form/draft";

import { CreateFlow } from "./CreateFlow";
import { type Kept, keptDraft } from "./keptDraft";
import { ANEW, FROM_A_MODEL, OWN_IMAGE } from "./start/origin";

/** A new container, from nothing, from the draft that was left, from a model or template, or from another container. */
export function Create() {
  const { project } = useProject();
  const search = useSearch({ strict: false }) as CreateSearch;
  if (search.copy) return <CreateCopy projectId={project.id} containerId={search.copy} />;
  return <CreateNew key={project.id} projectId={project.id} search={search} />;
}

/** The address says what it begins with only until it has begun. */
function CreateNew({ projectId, search }: { projectId: string; search: CreateSearch }) {
  const [begin] = useState(() => beginning(keptDraft(projectId) ?? { draft: EMPTY, origin: FROM_A_MODEL }, search));
  return <CreateFlow projectId={projectId} begin={begin} />;
}

/** As if the model or the template were chosen at the first step. */
function beginning(kept: Kept, { model, template }: CreateSearch): Kept {
  if (model === undefined) return kept;
  const kind = template === undefined ? "model" : "template";
  return { ...kept, origin: { ...kept.origin, ...ANEW, kind, template: template ?? null, model } };
}

function CreateCopy({ projectId, containerId }: { projectId: string; containerId: string }) {
  const { data: container, error } = useQuery({ ...containerQuery(containerId), refetchInterval: false });
  if (error) return <ErrorNotice error={error} />;
  if (!container) return <Waiting />;
  // Its secrets stay its own: their names come along, their values and the registry's password do not.
  const draft: Draft = {
    ...fromContainer(container),
    name: `${container.name}-copy`.slice(0, 63),
    env: fromContainer(container).env.map((one) => ({ ...one, value: one.value ?? "" })),
  };
  return <CreateFlow key={containerId} projectId={projectId} begin={{ draft, origin: OWN_IMAGE }} />;
}
