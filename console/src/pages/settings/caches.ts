/** What a container keeps on its machines between starts, in words. */
import type { Container } from "@/api/queries";
import { binarySize } from "@/components/sizes";
import { shortTime } from "@/components/times";

import type { Cache } from "./queries";

/** "14.8 GiB of 22 GiB". */
export function holds({ size_bytes: held, limit_bytes: limit, measured_at: measured }: Cache): string {
  const size = measured === null ? "not measured yet" : binarySize(held);
  return limit === null ? size : `${size}${measured === null ? "," : " of"} ${binarySize(limit)}`;
}

export function lastUsed(cache: Cache, now: Date): string {
  if (cache.deleting) return "being deleted";
  // Its container has none any more; the machine takes it away.
  if (cache.limit_bytes === null && !cache.in_use) return "to be deleted";
  return cache.in_use ? "in use" : shortTime(cache.used_at, now);
}

export function canBeDeleted(cache: Cache): boolean {
  return !cache.in_use && !cache.deleting;
}

/** Where there is none although the container is to have one. */
export function noneYet(container: Container): string {
  const kept = "None yet. The first start on a machine fills one.";
  return container.infrastructure === "operator" ? kept : `${kept} On community machines each replica has its own, which ends with it.`;
}
