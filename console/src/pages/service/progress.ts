import type { Container } from "@/api/queries";
import { size } from "@/components/sizes";

interface Progress {
  /** How far: bytes, or seconds. */
  text: string;
  /** Of the whole: of the bytes, or of the time that a start has. Of work whose end nobody knows there is none. */
  fraction?: number;
  /** That its time is nearly up, and how much of it is left. */
  soonUp?: string;
  /** What it waits for, where that is known. */
  doing?: Doing;
  /** Replicas that begin once the first one has filled the cache. */
  waiting?: number;
}

interface Doing {
  words: string;
  figures?: string;
}

/** From here on a start is told how much of its time is left. */
const NEARLY_UP = 0.8;

/** How far a deployment is: bytes of its image, or seconds of its health timeout, and what it does meanwhile. Of one that runs:
 * how far its next replica is, which takes over from another or comes beside it. */
export function progressOf(container: Container, now: Date): Progress | null {
  const known = container.progress ?? {};
  switch (known["phase"] ?? container.state) {
    case "pull":
    case "PULLING":
      return pullOf(container, known);
    case "start":
    case "STARTING":
      return startOf(container, known, now);
    default:
      return null;
  }
}

function pullOf(container: Container, known: Record<string, unknown>): Progress {
  const pulled = Number(known["done_bytes"] ?? 0);
  const total = Number(known["total_bytes"] ?? 0);
  const text = total > 0 ? `${size(pulled)} of ${size(total)}` : "asking the registry";
  return {
    text,
    ...(total > 0 ? { fraction: Math.min(pulled / total, 1) } : {}),
    ...(container.state === "RUNNING" ? { doing: { words: "pulling its image" } } : {}),
  };
}

function startOf(container: Container, known: Record<string, unknown>, now: Date): Progress {
  const limit = Number(known["limit_s"] ?? container.health_check.timeout_s);
  const began = known["started_at"];
  const waiting = typeof known["waiting"] === "number" ? { waiting: known["waiting"] } : {};
  if (typeof began !== "string") return { text: "about to begin", ...waiting };
  const seconds = Math.max(0, Math.floor((now.getTime() - new Date(began).getTime()) / 1000));
  const work = doingOf(known);
  const doing = work ?? (container.state === "RUNNING" ? { words: "starting" } : null);
  const left = limit - seconds;
  return {
    text: `${Math.min(seconds, limit)} of ${limit} s`,
    ...(work ? {} : { fraction: Math.min(seconds / limit, 1) }),
    ...(seconds >= limit * NEARLY_UP ? { soonUp: left > 0 ? soonUp(container, left) : "Its time is up." } : {}),
    ...(doing ? { doing } : {}),
    ...waiting,
  };
}

/** What happens then: only a container with nothing to fall back on fails. */
function soonUp({ state, replicas, rollout }: Container, left: number): string {
  const unless = `in ${left} s unless it is ready by then.`;
  // Beside a canary it may be a replica of either version.
  const isOfUpdate = rollout && rollout.strategy !== "canary" && (rollout.beside || state !== "RUNNING");
  if (isOfUpdate) return `The update goes back ${unless}`;
  if (state !== "RUNNING") return `Fails ${unless}`;
  return `Given up ${unless}${replicas.ready > 0 ? " What is ready serves on." : ""}`;
}

/** Seen by how its cache grows, so nobody knows of a container without one. */
function doingOf(progress: Record<string, unknown>): Doing | null {
  switch (progress["step"]) {
    case "download": {
      const held = size(Number(progress["cache_bytes"] ?? 0));
      return { words: "downloading weights", figures: `${held} in the cache, ${size(Number(progress["bytes_per_s"] ?? 0))}/s` };
    }
    case "compile":
      return { words: "compiling" };
    case "load":
      return { words: "loading the model" };
    default:
      return null;
  }
}

/** "2 more replicas wait …": twenty that start together download once. */
export function waitingWords(waiting: number): string {
  const who = waiting === 1 ? "1 more replica waits" : `${waiting} more replicas wait`;
  return `${who} for the first to fill the cache.`;
}
