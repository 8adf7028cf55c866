import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, queryOptions, useQuery } from "@tanstack/react-query";

import { api, body, type Schemas } from "@/api/client";
import { messageOf, Problem } from "@/api/problem";
import { templatesQuery } from "@/api/queries";
import type { Draft } from "@/containers/form/draft";

import { mistakenModel, namedModel } from "./modelId";
import { type ModelPlan, type Origin, wantedFile } from "./origin";
import { withTitles } from "./titles";

const TYPING_PAUSE_MS = 400;

const planQuery = (projectId: string, wish: Schemas["ModelWish"]) =>
  queryOptions({
    queryKey: ["models", projectId, wish],
    // The hub may call it otherwise than it was asked for, so the answer keeps the question.
    queryFn: async ({ signal }) => ({
      id: wish.model,
      plan: await body(
        api.POST("/api/v1/projects/{project_id}/models/resolve", {
          params: { path: { project_id: projectId } },
          body: wish,
          signal,
        }),
      ),
    }),
    enabled: wish.model !== "",
    // What is free changes by the minute; what the hub says, the API remembers.
    staleTime: 30_000,
    // With it goes the token.
    gcTime: 0,
    retry: false,
    refetchOnWindowFocus: false,
    placeholderData: keepPreviousData,
  });

export interface Asked {
  /** Of the model that is named now; what it follows from may just be changing. */
  plan: ModelPlan | null;
  /** Why there is none. */
  refusal: { reason: string; message: string } | null;
  isAsking: boolean;
  again: () => void;
}

/** Asks what the model needs and where it fits, while somebody names it and moves the sliders. */
export function useModelPlan(
  projectId: string,
  origin: Origin,
  infrastructure: Draft["infrastructure"],
  token: string,
): Asked {
  const id = origin.kind === "image" ? null : (namedModel(origin.model)?.id ?? null);
  const wish: Schemas["ModelWish"] = {
    model: id ?? "",
    template: origin.template,
    context_tokens: origin.context,
    requests_at_once: origin.requests,
    file: wantedFile(origin),
    hub_token: token || null,
    infrastructure,
  };
  const written = JSON.stringify(wish);
  const [paused] = useDebouncedValue(written, TYPING_PAUSE_MS);
  const { data, error, isFetching, isPlaceholderData, refetch } = useQuery(
    planQuery(projectId, JSON.parse(paused) as Schemas["ModelWish"]),
  );
  const templates = useQuery(templatesQuery).data ?? [];
  const isAsking = id !== null && (isFetching || paused !== written);
  const again = () => void refetch();
  if (id === null) {
    const mistake = origin.kind === "image" ? null : mistakenModel(origin.model);
    return { plan: null, refusal: mistake === null ? null : { reason: "not_a_model_address", message: mistake }, isAsking, again };
  }
  if (data?.plan.ok && data.id === id) return { plan: data.plan, refusal: null, isAsking, again };
  if (isAsking || isPlaceholderData) return { plan: null, refusal: null, isAsking: true, again };
  if (error) return { plan: null, refusal: { reason: codeOf(error), message: wordsOf(error) }, isAsking, again };
  if (data && !data.plan.ok) {
    const refusal = { reason: data.plan.reason ?? "", message: data.plan.message };
    return { plan: null, refusal: { ...refusal, message: withTitles(refusal, templates) }, isAsking, again };
  }
  return { plan: null, refusal: null, isAsking, again };
}

function codeOf(error: unknown): string {
  return error instanceof Problem ? error.code : "";
}

function wordsOf(error: unknown): string {
  return (error instanceof Problem && Object.values(error.fields())[0]) || messageOf(error);
}
