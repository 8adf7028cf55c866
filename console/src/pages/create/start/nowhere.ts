/** Why no instance type can be chosen for a model, and what to do. Pure. */
import type { Draft } from "@/containers/form/draft";

import { type Fit, isOffered, type ModelPlan } from "./origin";

/** Names beyond so many help nobody. */
const MOST_NAMES = 3;

export function whyNowhere(plan: ModelPlan, infrastructure: Draft["infrastructure"]): string {
  const offered = plan.instance_types.filter((one) => isOffered(one, infrastructure));
  const fitting = offered.filter((one) => one.fits);
  const taken = fitting.filter((one) => one.capacity > 0);
  if (taken.length > 0) {
    const none = taken.length === 1 ? "none is free now" : "none of these is free now";
    return `It fits on ${names(taken)}, but ${none}. A shorter context, or fewer requests at once, may fit on another.`;
  }
  // Where it fits on nothing at all, the API knows by how much, and what helps.
  if (fitting.length === 0) return plan.message;
  return `It fits on ${names(fitting)}, but no machine here offers ${whatIsMissing(fitting, offered)}. ${advice(plan, fitting, offered)}`;
}

function names(fits: Fit[]): string {
  const all = fits.map((one) => one.instance_type);
  if (all.length === 1) return all[0] ?? "";
  const [shown, more] = [all.slice(0, MOST_NAMES), all.length - MOST_NAMES];
  return more > 0 ? `${shown.join(", ")} and ${more} more` : `${all.slice(0, -1).join(", ")} and ${all.at(-1)}`;
}

/** A machine may have the GPU and lack another thing, such as a second one. */
function whatIsMissing(fitting: Fit[], offered: Fit[]): string {
  const isHere = (model: string | null) => model === null || offered.some((one) => one.gpu_model === model && one.capacity > 0);
  const models = new Set(fitting.map((one) => one.gpu_model));
  if ([...models].some(isHere)) return fitting.length === 1 ? "that type" : "one of these types";
  return models.size === 1 ? "that GPU" : "one of these GPUs";
}

function advice({ model }: ModelPlan, fitting: Fit[], offered: Fit[]): string {
  const here = offered.filter((one) => one.capacity > 0);
  const [roomiest] = [...here].sort((one, other) => (other.longest_context_tokens ?? 0) - (one.longest_context_tokens ?? 0));
  if (roomiest?.longest_context_tokens) {
    return `A context of ${roomiest.longest_context_tokens.toLocaleString("en-US")} tokens fits on ${roomiest.instance_type}.`;
  }
  const needsGpu = fitting.every((one) => one.gpu_model !== null) && here.some((one) => one.gpu_model === null);
  return needsGpu && model?.kind === "chat" && model.format !== "gguf"
    ? "Choose a GGUF model, which runs without a GPU, or ask the operator."
    : "Choose a smaller model, or ask the operator.";
}
