/** "Firefox on Linux" from a user agent; what names itself otherwise (`moor on my-laptop`) stays as it is. */
export function clientName(client: string): string {
  if (!client.startsWith("Mozilla/")) return client || "Unknown";
  const browser = BROWSERS.find(([mark]) => client.includes(mark))?.[1] ?? "A browser";
  const system = SYSTEMS.find(([mark]) => client.includes(mark))?.[1];
  return system ? `${browser} on ${system}` : browser;
}

/** Most of them also claim to be the ones below them. */
const BROWSERS: [mark: string, name: string][] = [
  ["Edg/", "Edge"],
  ["OPR/", "Opera"],
  ["Firefox/", "Firefox"],
  ["Chrome/", "Chrome"],
  ["Safari/", "Safari"],
];
const SYSTEMS: [mark: string, name: string][] = [
  ["Android", "Android"],
  ["iPhone", "iPhone"],
  ["iPad", "iPad"],
  ["Windows", "Windows"],
  ["Mac OS X", "macOS"],
  ["Linux", "Linux"],
];
