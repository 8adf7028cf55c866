/** What a new container is made from, and how that becomes settings that the other steps show. */
import type { Schemas } from "@/api/client";
import { type Draft, EMPTY, type Variable } from "@/containers/form/draft";

import { namedModel } from "./modelId";

export type ModelPlan = Schemas["ModelPlanRead"];
export type Fit = Schemas["FitRead"];
type ServerSettings = Schemas["ServerSettingsRead"];

export interface Origin {
  kind: "model" | "template" | "image";
  /** As it was written. */
  model: string;
  /** These are null where the API chooses. */
  template: string | null;
  context: number | null;
  requests: number | null;
  /** As it was chosen; the address of a file names one too. */
  file: string | null;
  instanceType: string | null;
  filled: Filled | null;
}

/** What the other steps were last filled in with, so that they can tell what somebody has changed since. */
export interface Filled {
  model: string;
  template: string;
  templateTitle: string;
  context: number | null;
  requests: number | null;
  file: string | null;
  name: string;
  category: string;
  /** Beside the settings: with another one, or none, the model fits as before. */
  cacheGib: number | null;
  settings: ServerSettings;
}

export const FROM_A_MODEL: Origin = {
  kind: "model",
  model: "",
  template: null,
  context: null,
  requests: null,
  file: null,
  instanceType: null,
  filled: null,
};
export const OWN_IMAGE: Origin = { ...FROM_A_MODEL, kind: "image" };

/** Another model reads another number of tokens and comes in other files. */
export const ANEW: Partial<Origin> = { context: null, requests: null, file: null, instanceType: null };

/** One that was chosen goes before one that was pasted. */
export function wantedFile({ model, file }: Pick<Origin, "model" | "file">): string | null {
  return file ?? namedModel(model)?.file ?? null;
}

export function isOffered(fit: Fit, infrastructure: Draft["infrastructure"]): boolean {
  return infrastructure === "any" || fit.infrastructure === infrastructure;
}

export function canBeChosen(fit: Fit): boolean {
  return fit.fits && fit.available;
}

/** That no machine here has any of the types that it fits on, not even one that is silent or closed for now. */
export function hasNoMachine(plan: ModelPlan): boolean {
  return !plan.instance_type && plan.reason === "no_machine_has_it";
}

/** The type that was picked while it fits, else the cheapest: the API lists those first. */
export function chosenFit(plan: ModelPlan, origin: Origin, infrastructure: Draft["infrastructure"]): Fit | null {
  const open = plan.instance_types.filter((one) => isOffered(one, infrastructure) && canBeChosen(one));
  return open.find((one) => one.instance_type === origin.instanceType) ?? open[0] ?? null;
}

export function filledFrom(plan: ModelPlan, fit: Fit, origin: Origin): Filled | null {
  const { model, template } = plan;
  if (!model || !template || !fit.settings) return null;
  return {
    model: model.id,
    template: template.name,
    templateTitle: template.title,
    context: plan.context_tokens ?? null,
    requests: plan.requests_at_once ?? null,
    file: wantedFile(origin),
    name: (model.repository.split("/")[1] ?? "").replace(/[^\w.-]/g, "-").slice(0, 63),
    category: CATEGORIES[model.kind] ?? "",
    cacheGib: plan.cache?.size_gib ?? null,
    settings: fit.settings,
  };
}

const CATEGORIES: Record<string, string> = { chat: "Chat", embedding: "Embeddings", speech: "Speech", image: "Image" };

/** What somebody wrote in other steps stays, unless it was filled in from another plan. */
export function fill(draft: Draft, before: Filled | null, now: Filled, instanceType: string): Draft {
  const follows = (written: string, filled: string | undefined) => written === "" || written === filled;
  const isSame = before !== null && JSON.stringify(before.settings) === JSON.stringify(now.settings);
  return {
    ...draft,
    name: follows(draft.name, before?.name) ? now.name : draft.name,
    category: follows(draft.category, before?.category) ? now.category : draft.category,
    // A draft that was kept before there were caches has none.
    cacheGib: draft.cacheGib === (before?.cacheGib ?? null) ? now.cacheGib : draft.cacheGib,
    instanceType,
    ...(isSame ? {} : shown(now.settings)),
  };
}

/** Of a template and nobody's own any more. */
export function cleared(draft: Draft, filled: Filled): Draft {
  const { image, provider, startCommand, port, healthPath, healthTimeout, apiPath } = EMPTY;
  const cacheGib = draft.cacheGib === filled.cacheGib ? EMPTY.cacheGib : draft.cacheGib;
  return { ...draft, image, provider, startCommand, port, healthPath, healthTimeout, apiPath, cacheGib };
}

/** False where somebody has changed what the template says: then it is their image, and its memory is their matter. */
export function isAsFilled(draft: Draft, filled: Filled): boolean {
  const held = shown(filled.settings);
  return (Object.keys(held) as (keyof typeof held)[]).every((field) => draft[field] === held[field]);
}

function shown(settings: ServerSettings) {
  return {
    image: settings.image,
    provider: settings.provider,
    isPrivate: false,
    startCommand: settings.start_command,
    port: settings.port,
    healthPath: settings.health_path,
    healthTimeout: settings.health_timeout_s,
    apiPath: settings.api_path,
  } satisfies Partial<Draft>;
}

/** Set by the template, and by a token where there is one; the container's own come first. */
export function presetVariables(filled: Filled | null, token: string): Variable[] {
  if (!filled) return [];
  const preset = Object.entries(filled.settings.env).map(([name, value]) => ({ name, value }));
  return token ? [...preset, { name: "HF_TOKEN", value: token }] : preset;
}
