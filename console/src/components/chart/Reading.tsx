import { clockTime } from "@/components/times";

import classes from "./Chart.module.css";
import type { Area, Cursor, Drawing } from "./drawing";

interface ReadingProps extends Drawing {
  area: Area;
  cursor: Cursor;
  exact?: (value: number) => string;
  moment?: (seconds: number) => string;
}

/** The numbers under the crosshair, on the side where there is room. */
export function Reading({ area, cursor, times, lines, exact = String, moment = clock }: ReadingProps) {
  const at = times[cursor.index];
  if (at === undefined) return null;
  const isRight = cursor.left < area.width / 2;
  const place = isRight ? { left: area.left + cursor.left + 12 } : { right: `calc(100% - ${area.left + cursor.left - 12}px)` };
  return (
    <div className={classes.reading} style={{ top: area.top + 4, ...place }} aria-hidden>
      <time>{moment(at)}</time>
      {lines.toReversed().map((line) => {
        const value = line.values[cursor.index];
        return (
          <p key={line.label}>
            <i style={{ background: `var(--m-${line.color})` }} />
            <span>{line.label}</span>
            <b>{typeof value === "number" ? exact(value) : "–"}</b>
          </p>
        );
      })}
    </div>
  );
}

function clock(seconds: number): string {
  return clockTime(new Date(seconds * 1000).toISOString());
}
