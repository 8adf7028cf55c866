/** Which instance types are shown of a model's plan, in which order, and which are folded away. Pure. */
import type { Draft } from "@/containers/form/draft";

import { canBeChosen, type Fit, hasNoMachine, isOffered, type ModelPlan } from "./origin";

interface Folding {
  /** What can be chosen first, and cheap ones first of those. */
  shown: Fit[];
  /** On which nothing could start now, were nothing else running: nobody has such a machine, or it rests. */
  folded: Fit[];
  /** Without a GPU, which the server needs, whatever they have. */
  pointless: Fit[];
}

export function foldingOf(plan: ModelPlan, infrastructure: Draft["infrastructure"]): Folding {
  const offered = plan.instance_types.filter((one) => isOffered(one, infrastructure));
  const pointless = offered.filter((one) => one.gpu_model === null && one.usable_bytes === null);
  const weighed = offered.filter((one) => !pointless.includes(one));
  // The one that the API would wait on is told of below the rows.
  const here = weighed.filter((one) => one.capacity > 0 || one.instance_type === plan.instance_type);
  if (here.length === 0) return { shown: weighed, folded: [], pointless };
  return {
    shown: [...here.filter(canBeChosen), ...here.filter((one) => !canBeChosen(one))],
    folded: weighed.filter((one) => !here.includes(one)),
    pointless,
  };
}

/** Of a type that the model fits on, where nothing could start now. */
export function whyNothingStarts(plan: ModelPlan): string {
  return hasNoMachine(plan) ? "no machine here has it" : "no machine offers it now";
}
