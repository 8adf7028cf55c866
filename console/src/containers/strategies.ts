import type { Schemas } from "@/api/client";

/** How new settings take over from those that serve, as it is called wherever it is chosen or told. */
export const STRATEGIES: Record<Schemas["Strategy"], string> = { rolling: "Rolling", canary: "Canary", replace: "Stop and start" };
