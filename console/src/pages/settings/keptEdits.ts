import type { Draft } from "@/containers/form/draft";

interface Kept {
  /** What the form began with. */
  begin: Draft;
  draft: Draft;
}

/** By the container's id. In this page's memory alone, for secrets are among them: with a reload or a sign-out it is gone. */
const kept = new Map<string, Kept>();

export function keepEdits(containerId: string, begin: Draft, draft: Draft): void {
  if (JSON.stringify(begin) === JSON.stringify(draft)) kept.delete(containerId);
  else kept.set(containerId, { begin, draft });
}

export function forgetEdits(containerId: string): void {
  kept.delete(containerId);
}

export function hasEdits(containerId: string): boolean {
  return kept.has(containerId);
}

/** The form as somebody left it, over what the settings are by now. */
export function withKeptEdits(containerId: string, begin: Draft): Draft {
  const found = kept.get(containerId);
  return found ? rebased(found.begin, found.draft, begin) : begin;
}

/** Each field that was changed stays changed; every other one is as it is now. */
export function rebased(before: Draft, edited: Draft, now: Draft): Draft {
  const fields = Object.keys(now) as (keyof Draft)[];
  const changed = fields.filter((field) => JSON.stringify(edited[field]) !== JSON.stringify(before[field]));
  return { ...now, ...Object.fromEntries(changed.map((field) => [field, edited[field]])) };
}
