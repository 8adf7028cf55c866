import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";

import { paths } from "@/addresses/paths";
import { api, body, type Schemas } from "@/api/client";
import { Problem } from "@/api/problem";
import { failed } from "@/components/toasts";
import { cacheOf, type Draft, type Errors, resourcesOf, toCreate } from "@/containers/form/draft";

import { dropDraft } from "./keptDraft";
import { type Filled, isAsFilled, presetVariables } from "./start/origin";

interface Wanted {
  draft: Draft;
  /** What the settings were filled in with; null: they are somebody's own. */
  filled: Filled | null;
  token: string;
}

export function useDeploy(projectId: string, { draft, filled, token }: Wanted, refused: (errors: Errors) => void) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () => {
      const params = { path: { project_id: projectId } };
      // As long as the settings are the template's, the API weighs the model once more before it holds money for it.
      return filled && isAsFilled(draft, filled)
        ? body(api.POST("/api/v1/projects/{project_id}/models/deploy", { params, body: modelOf(draft, filled, token) }))
        : body(api.POST("/api/v1/projects/{project_id}/containers", { params, body: containerOf(draft, filled, token) }));
    },
    onSuccess: async (container) => {
      dropDraft(projectId);
      await queries.invalidateQueries({ queryKey: ["containers"] });
      await navigate({ to: paths.container(projectId, container.id) });
    },
    onError: (error) => {
      const fields = error instanceof Problem ? error.fields() : {};
      // A name that is taken is a conflict, not a field; it still belongs beside the name.
      if (error instanceof Problem && error.code === "name_taken") refused({ name: error.message });
      else if (Object.keys(fields).length > 0) refused(fields);
      else failed(error);
    },
  });
}

function modelOf(draft: Draft, filled: Filled, token: string): Schemas["ModelDeploy"] {
  const { env, name, category } = toCreate(draft);
  return {
    model: filled.model,
    template: filled.template,
    context_tokens: filled.context,
    requests_at_once: filled.requests,
    file: filled.file,
    hub_token: token || null,
    infrastructure: draft.infrastructure,
    accept_exposure: draft.acceptExposure,
    name,
    category: category ?? null,
    resources: resourcesOf(draft),
    env: env ?? {},
    sleep_after_s: draft.sleepAfter,
    cache: cacheOf(draft),
  };
}

function containerOf(draft: Draft, filled: Filled | null, token: string): Schemas["ContainerCreate"] {
  const own = draft.env.filter((one) => one.name);
  const names = new Set(own.map((one) => one.name));
  const preset = presetVariables(filled, token).filter((one) => !names.has(one.name));
  return toCreate({ ...draft, env: [...preset, ...own] });
}
