import type { Line } from "@/components/chart/drawing";

import classes from "./Metrics.module.css";

const MOST = 5;

/** Which line is which, in the order in which they are read. */
export function Legend({ lines, decision = false }: { lines: Line[]; decision?: boolean }) {
  return (
    <ul className={classes.legend}>
      {lines.slice(0, MOST).map((line) => (
        <li key={line.label}>
          <i
            data-dashed={line.dashed || undefined}
            data-filled={line.filled || undefined}
            style={{ color: `var(--m-${line.color})` }}
          />
          {line.label}
        </li>
      ))}
      {lines.length > MOST ? <li>and {lines.length - MOST} more</li> : null}
      {decision ? (
        <li>
          <b /> decision
        </li>
      ) : null}
    </ul>
  );
}
