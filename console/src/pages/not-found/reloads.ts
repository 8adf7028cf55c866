const KEPT_AS = "moorage-reloads";
const PAUSES_MS = [1_000, 2_000, 4_000, 8_000];
const FORGOTTEN_AFTER_MS = 60_000;

/** How long to wait before the page is loaded again by itself; null when that was tried often enough just now. */
export function pauseBeforeReload(now = Date.now()): number | null {
  return PAUSES_MS[recent(now).length] ?? null;
}

export function reload(now = Date.now()) {
  sessionStorage.setItem(KEPT_AS, JSON.stringify([...recent(now), now]));
  window.location.reload();
}

function recent(now: number): number[] {
  const kept = JSON.parse(sessionStorage.getItem(KEPT_AS) ?? "[]") as number[];
  return kept.filter((time) => now - time < FORGOTTEN_AFTER_MS);
}
