import { size } from "@/components/sizes";

import type { Fit } from "./origin";

/** What the bars leave out, and what one more request takes. */
export function footnote(fits: Pick<Fit, "gpu_model" | "total_bytes" | "usable_bytes">[], bytesPerRequest: number | null | undefined): string {
  const [gpu, machine] = [shareReserved(fits, true), shareReserved(fits, false)];
  const parts = [
    ...(gpu === null ? [] : [`${gpu} % of a GPU's memory`]),
    ...(machine === null ? [] : [`${machine} % of the RAM on types without a GPU`]),
  ];
  const reserved = parts.length > 0 ? `Reserved for the system: ${parts.join(", ")}. ` : "";
  return bytesPerRequest ? `${reserved}The context of a full-length request takes ${amount(bytesPerRequest)}. ` : reserved;
}

function shareReserved(fits: Pick<Fit, "gpu_model" | "total_bytes" | "usable_bytes">[], onGpu: boolean): number | null {
  const fit = fits.find((one) => (one.gpu_model !== null) === onGpu && one.total_bytes && one.usable_bytes);
  return fit?.total_bytes && fit.usable_bytes ? Math.round((1 - fit.usable_bytes / fit.total_bytes) * 100) : null;
}

function amount(bytes: number): string {
  return bytes >= 1e8 ? `${(bytes / 1e9).toFixed(2)} GB` : size(bytes);
}
