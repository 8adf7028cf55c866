/** The console's colours, [light, dark]. Pages use them as `var(--m-…)` and name no colour of their own. */
export const tokens = {
  canvas: ["#F6F7F9", "#0B0E12"],
  surface: ["#FFFFFF", "#12161C"],
  sunken: ["#F1F3F6", "#191F27"],
  line: ["#E2E6EB", "#232A34"],
  "line-2": ["#C9D0D9", "#3A4451"],
  field: ["#89929F", "#626E7D"],
  ink: ["#131820", "#E9EDF2"],
  "ink-2": ["#434D5B", "#B3BDC9"],
  "ink-3": ["#626D7C", "#8B96A5"],
  accent: ["#1B5BD6", "#2C69E4"],
  "accent-text": ["#1650C0", "#82AEFF"],
  "accent-soft": ["#EAF1FE", "#14233F"],
  ok: ["#0F7A4A", "#52C78F"],
  "ok-soft": ["#E6F5ED", "#10271D"],
  warn: ["#8A5600", "#E5B155"],
  "warn-soft": ["#FFF4DF", "#2B2211"],
  bad: ["#BF2330", "#FF7F86"],
  "bad-soft": ["#FDEDEE", "#311619"],
  idle: ["#556070", "#A0ABB9"],
  "idle-soft": ["#EEF1F4", "#1D242D"],
  "series-1": ["#1B5BD6", "#5B93FF"],
  "series-2": ["#0E8478", "#3DB8A9"],
  "series-3": ["#B0730F", "#DBA141"],
  "series-4": ["#8447B8", "#B98AE6"],
  "series-5": ["#7A8696", "#8391A3"],
  p50: ["#0F3478", "#4676D0"],
  p95: ["#2E6CE0", "#6F9FFA"],
  p99: ["#6A90DC", "#BBD3FF"],
} as const;

export type Token = keyof typeof tokens;

export function cssVariables(scheme: "light" | "dark"): Record<string, string> {
  const column = scheme === "light" ? 0 : 1;
  return Object.fromEntries(Object.entries(tokens).map(([name, values]) => [`--m-${name}`, values[column]]));
}
