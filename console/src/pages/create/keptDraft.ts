import { type Draft, EMPTY } from "@/containers/form/draft";

import { OWN_IMAGE, type Origin } from "./start/origin";

/** A draft waits in the browser until it is deployed or thrown away. Secrets wait only as long as the tab is open, and a hub's token
 * is not among them: it lives as long as the page. */
const key = (projectId: string) => `moorage-draft-${projectId}`;

export interface Kept {
  draft: Draft;
  origin: Origin;
}

export function keepDraft(projectId: string, { draft, origin }: Kept): void {
  const { password, env, ...rest } = draft;
  try {
    localStorage.setItem(key(projectId), JSON.stringify({ ...rest, origin }));
    sessionStorage.setItem(key(projectId), JSON.stringify({ password, env }));
  } catch {
    return; // storage is full or switched off; the draft then lives as long as the page
  }
}

export function keptDraft(projectId: string): Kept | null {
  try {
    const kept = localStorage.getItem(key(projectId));
    if (!kept) return null;
    const { origin, ...rest } = JSON.parse(kept) as Draft & { origin?: Partial<Origin> };
    const secrets = sessionStorage.getItem(key(projectId)) ?? "{}";
    return {
      draft: { ...EMPTY, ...rest, ...(JSON.parse(secrets) as Partial<Draft>) },
      origin: { ...OWN_IMAGE, ...origin },
    };
  } catch {
    return null;
  }
}

export function dropDraft(projectId: string): void {
  try {
    localStorage.removeItem(key(projectId));
    sessionStorage.removeItem(key(projectId));
  } catch {
    return;
  }
}
