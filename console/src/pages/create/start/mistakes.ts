import { type Draft, type Errors, exposureMistake } from "@/containers/form/draft";

import { namedModel } from "./modelId";
import type { Fit, Origin } from "./origin";
import type { Asked } from "./useModelPlan";

/** Why the first step cannot be left yet. */
export function mistakesOfStart({ draft, origin }: { draft: Draft; origin: Origin }, asked: Asked, fit: Fit | null): Errors {
  if (origin.kind === "image") return draft.image.trim() ? {} : { image: "Name the image to run." };
  if (origin.kind === "template" && !origin.template) return { model: "Choose a template." };
  if (!origin.model.trim()) return { model: "Choose a model." };
  if (asked.refusal) return { model: asked.refusal.message };
  if (namedModel(origin.model) === null) return { model: "Write it as hf:ORGANIZATION/NAME." };
  if (!asked.plan) return { model: "The hub has not answered yet." };
  return { ...(fit ? {} : { "resources.instance_type": "No instance type that it fits on is free." }), ...exposureMistake(draft) };
}
