import type { Container } from "@/api/queries";
import { size } from "@/components/sizes";

interface Progress {
  text: string;
  /** Of the whole, where it is known. */
  fraction?: number;
}

/** How far a deployment is: bytes of its image, or seconds of its health timeout. */
export function progressOf(container: Container, now: Date): Progress | null {
  if (container.state === "PULLING") {
    const pulled = Number(container.progress?.["done_bytes"] ?? 0);
    const total = Number(container.progress?.["total_bytes"] ?? 0);
    if (total <= 0) return { text: "asks the registry" };
    return { text: `${size(pulled)} of ${size(total)}`, fraction: Math.min(pulled / total, 1) };
  }
  if (container.state === "STARTING") {
    const limit = Number(container.progress?.["limit_s"] ?? container.health_check.timeout_s);
    const began = container.progress?.["started_at"];
    if (typeof began !== "string") return { text: "its process starts" };
    const seconds = Math.max(0, Math.floor((now.getTime() - new Date(began).getTime()) / 1000));
    return { text: `${Math.min(seconds, limit)} of ${limit} s`, fraction: Math.min(seconds / limit, 1) };
  }
  return null;
}
