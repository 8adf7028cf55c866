/** What the palette offers for what was written. */
export interface Target {
  label: string;
  kind: string;
  /** Where it leads, or what it does. */
  open: { to: string } | { act: string; containerId?: string } | { href: string };
  /** Only shown once something is written that it matches: there are many of them. */
  whenAsked?: boolean;
}

const MOST = 50;

/** Every word that was written is in its label; those that begin with it come first, in their order otherwise. */
export function found(targets: Target[], text: string): Target[] {
  const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return targets.filter((one) => !one.whenAsked).slice(0, MOST);
  const matching = targets.filter((one) => words.every((word) => one.label.toLowerCase().includes(word)));
  const begins = (one: Target) => Number(one.label.toLowerCase().startsWith(words[0] ?? ""));
  return matching.toSorted((one, other) => begins(other) - begins(one)).slice(0, MOST);
}
