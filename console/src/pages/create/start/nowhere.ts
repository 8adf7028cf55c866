/** Why no instance type can be chosen for a model, and what to do. Pure. */
import type { Draft } from "@/containers/form/draft";

import { canBeChosen, type Fit, hasNoMachine, isOffered, type ModelPlan } from "./origin";

/** Names beyond so many help nobody. */
const MOST_NAMES = 3;

/** Null while the answer is about other machines than those that were just chosen: there, it can run. */
export function whyNowhere(plan: ModelPlan, infrastructure: Draft["infrastructure"]): string | null {
  if (plan.instance_types.some((one) => one.instance_type === plan.instance_type && canBeChosen(one))) return null;
  const offered = plan.instance_types.filter((one) => isOffered(one, infrastructure));
  const fitting = offered.filter((one) => one.fits);
  // What is in use or rests, and by how much it fits on nothing, the API knows: a capacity of 0 may be that of a machine that is silent.
  if (!hasNoMachine(plan) || fitting.length === 0) return plan.message;
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
