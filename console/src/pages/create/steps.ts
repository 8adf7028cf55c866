import { type Errors, type Step, stepOf, STEPS } from "@/containers/form/draft";

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
