import classes from "./Meter.module.css";
import type { Tone } from "./state";

/** How much of something is taken, beside the words that say it. */
export function Meter({ part, tone }: { part: number; tone?: Tone | undefined }) {
  const percent = Math.min(100, Math.max(0, part * 100));
  return (
    <span className={classes.meter} data-tone={tone} aria-hidden>
      <i style={{ width: `${percent}%` }} />
    </span>
  );
}
