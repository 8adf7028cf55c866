const KEPT_AS = "moorage-reloads";
const MOST_IN_A_MINUTE = 4;

/** Whether the page may be loaded again by itself: not if that did not help just now. */
export function mayReload(): boolean {
  return recent().length < MOST_IN_A_MINUTE;
}

export function reload(): void {
  sessionStorage.setItem(KEPT_AS, JSON.stringify([...recent(), Date.now()]));
  window.location.reload();
}

function recent(): number[] {
  const times = JSON.parse(sessionStorage.getItem(KEPT_AS) ?? "[]") as number[];
  return times.filter((time) => Date.now() - time < 60_000);
}
