import type { Container } from "@/api/queries";
import { size } from "@/components/sizes";

interface Progress {
  /** How far: bytes, or seconds. */
  text: string;
  /** Of the whole, where it is known. */
  fraction?: number;
  /** What it waits for, where that is known. */
  doing?: Doing;
  /** Replicas that begin once the first one has filled the cache. */
  waiting?: number;
}

interface Doing {
  words: string;
  figures?: string;
}

/** How far a deployment is: bytes of its image, or seconds of its health timeout, and what it does meanwhile. */
export function progressOf(container: Container, now: Date): Progress | null {
  const known = container.progress ?? {};
  if (container.state === "PULLING") {
    const pulled = Number(known["done_bytes"] ?? 0);
    const total = Number(known["total_bytes"] ?? 0);
    if (total <= 0) return { text: "asks the registry" };
    return { text: `${size(pulled)} of ${size(total)}`, fraction: Math.min(pulled / total, 1) };
  }
  if (container.state === "STARTING") {
    const limit = Number(known["limit_s"] ?? container.health_check.timeout_s);
    const began = known["started_at"];
    const waiting = typeof known["waiting"] === "number" ? { waiting: known["waiting"] } : {};
    if (typeof began !== "string") return { text: "its process starts", ...waiting };
    const seconds = Math.max(0, Math.floor((now.getTime() - new Date(began).getTime()) / 1000));
    const doing = doingOf(known);
    return {
      text: `${Math.min(seconds, limit)} of ${limit} s`,
      fraction: Math.min(seconds / limit, 1),
      ...(doing ? { doing } : {}),
      ...waiting,
    };
  }
  return null;
}

/** Seen by how its cache grows, so nobody knows of a container without one. */
function doingOf(progress: Record<string, unknown>): Doing | null {
  switch (progress["step"]) {
    case "download": {
      const held = size(Number(progress["cache_bytes"] ?? 0));
      return { words: "downloads weights", figures: `${held} in its cache, ${size(Number(progress["bytes_per_s"] ?? 0))}/s` };
    }
    case "compile":
      return { words: "compiles" };
    case "load":
      return { words: "loads the model" };
    default:
      return null;
  }
}

/** "2 more replicas wait …": twenty that start together download once. */
export function waitingWords(waiting: number): string {
  const who = waiting === 1 ? "1 more replica waits" : `${waiting} more replicas wait`;
  return `${who} until the first has filled the cache of its machine.`;
}
