import { parameterCount, size } from "@/components/sizes";

import type { ModelPlan } from "./origin";
import classes from "./Start.module.css";

/** How large it is, in three figures. */
export function ModelFacts({ plan }: { plan: ModelPlan }) {
  const { model, memory } = plan;
  if (!model || !memory) return null;
  const figures: [string, string][] = [
    ...(model.parameters ? ([[parameterCount(model.parameters), "parameters"]] as [string, string][]) : []),
    [model.precision.toUpperCase(), "precision"],
    [size(memory.weights_bytes), "weights"],
  ];
  return (
    <dl className={classes.figures}>
      {figures.map(([figure, name]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{figure}</dd>
        </div>
      ))}
    </dl>
  );
}
