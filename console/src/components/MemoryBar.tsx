import classes from "./MemoryBar.module.css";

export interface MemoryParts {
  weights: number;
  server: number;
  context: number;
  /** Of which a server can have `usable`. */
  total: number;
  usable: number;
}

export const MEMORY_PARTS = ["weights", "server", "context"] as const;

/** One instance type's memory to scale. The first part that no longer fits is hatched up to where the memory ends, so that what is
 * short can be seen; beside it stands a text that says it. */
export function MemoryBar({ parts }: { parts: MemoryParts }) {
  const segments: { kind: string; share: number }[] = [];
  let left = parts.usable;
  for (const part of MEMORY_PARTS) {
    if (parts[part] > left) {
      segments.push({ kind: "short", share: left / parts.total });
      left = -1;
      break;
    }
    segments.push({ kind: part, share: parts[part] / parts.total });
    left -= parts[part];
  }
  segments.push({ kind: "reserved", share: 1 - parts.usable / parts.total });
  return (
    <span className={classes.bar} data-short={left < 0 || undefined} aria-hidden>
      {segments.map(({ kind, share }) => (
        <i key={kind} data-part={kind} style={{ width: `${share * 100}%` }} />
      ))}
    </span>
  );
}

/** What the colours mean, and how much each part takes. */
export function MemoryLegend({ parts }: { parts: { part: "weights" | "server" | "context" | "free" | "reserved"; words: string }[] }) {
  return (
    <ul className={classes.legend}>
      {parts.map(({ part, words }) => (
        <li key={part}>
          <i data-part={part} aria-hidden /> {words}
        </li>
      ))}
    </ul>
  );
}
