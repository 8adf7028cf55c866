import { type Draft, EMPTY } from "@/containers/form/draft";

/** A draft waits in the browser until it is deployed or thrown away. Secrets wait only as long as the tab is open. */
const key = (projectId: string) => `moorage-draft-${projectId}`;

export function keepDraft(projectId: string, draft: Draft): void {
  const { password, env, ...rest } = draft;
  try {
    localStorage.setItem(key(projectId), JSON.stringify(rest));
    sessionStorage.setItem(key(projectId), JSON.stringify({ password, env }));
  } catch {
    return; // storage is full or switched off; the draft then lives as long as the page
  }
}

export function keptDraft(projectId: string): Draft | null {
  try {
    const rest = localStorage.getItem(key(projectId));
    if (!rest) return null;
    const secrets = sessionStorage.getItem(key(projectId)) ?? "{}";
    return { ...EMPTY, ...(JSON.parse(rest) as Draft), ...(JSON.parse(secrets) as Partial<Draft>) };
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
