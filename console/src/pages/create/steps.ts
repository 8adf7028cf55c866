import { type Errors, mistakes, type Step, stepOf, STEPS } from "@/containers/form/draft";

import type { Kept } from "./keptDraft";

export const CREATE_STEPS = ["start", ...STEPS] as const;
export type CreateStep = "start" | Step;

export const STEP_TITLES: Record<CreateStep, string> = {
  start: "Start",
  base: "Base settings",
  resources: "Resources",
  advanced: "Advanced",
  review: "Review",
};

/** What the API says of these is shown where the model is chosen. */
const OF_THE_MODEL = /^(model|template|context_tokens|requests_at_once|file|hub_token)\b/;

export function createStepOf(errors: Errors): CreateStep | null {
  const first = Object.keys(errors)[0];
  if (!first) return null;
  return OF_THE_MODEL.test(first) ? "start" : stepOf(first);
}

/** Where an address leads: the step that it names, or the first one before it that is not yet done. */
export function reachable(wanted: string | undefined, first: CreateStep, { draft, origin }: Kept): CreateStep {
  const to = CREATE_STEPS.find((one) => one === wanted) ?? first;
  const passed = CREATE_STEPS.slice(0, CREATE_STEPS.indexOf(to));
  const isDone = (step: CreateStep) =>
    step === "start" ? origin.kind === "image" || origin.filled !== null : Object.keys(mistakes(draft, step)).length === 0;
  return passed.find((one) => !isDone(one)) ?? to;
}
