import type { InstanceType } from "@/api/queries";
import type { Schemas } from "@/api/client";

type Needs = Pick<Schemas["TemplateRead"], "runs_without_gpu" | "memory_bytes">;
type Offered = Pick<InstanceType, "gpu_model" | "memory_bytes" | "capacity" | "price_per_hour_microusd">;

/** The least that a template can cost: on a type that a machine here has, and that holds the server itself. A model needs more. */
export function cheapestHere(template: Needs, types: Offered[]): number | null {
  const able = types.filter(
    (one) =>
      one.capacity > 0 &&
      (one.gpu_model !== null || (template.runs_without_gpu && one.memory_bytes > template.memory_bytes)),
  );
  return able.length > 0 ? Math.min(...able.map((one) => one.price_per_hour_microusd)) : null;
}
