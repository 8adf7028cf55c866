import { Tooltip } from "@mantine/core";
import type { ReactNode } from "react";

import type { Token } from "@/theme/tokens";

import { niceMax } from "./chart/scale";
import classes from "./DayBars.module.css";
import { dayAndMonth } from "./days";

export interface Part {
  label: string;
  color: Token;
  /** Dollars by day, as many as there are dates. */
  values: number[];
}

const MOST_DATES_SHOWN = 8;
const LINES = 4;
const HEIGHT = 160;

interface DayBarsProps {
  dates: string[];
  parts: Part[];
  label: string;
  /** The same as numbers, in a table below. */
  children?: ReactNode;
}

/** One bar a day, stacked by what made it. */
export function DayBars({ children, ...chart }: DayBarsProps) {
  return (
    <>
      <Bars {...chart} />
      {children ? <div className={classes.numbers}>{children}</div> : null}
    </>
  );
}

function Bars({ dates, parts, label }: Omit<DayBarsProps, "children">) {
  const totals = dates.map((_, at) => parts.reduce((sum, part) => sum + (part.values[at] ?? 0), 0));
  const top = niceMax(Math.max(0, ...totals));
  const every = Math.ceil(dates.length / MOST_DATES_SHOWN);
  return (
    <div className={classes.chart} role="img" aria-label={label}>
      <ol className={classes.grid} style={{ height: HEIGHT }} aria-hidden>
        {Array.from({ length: LINES + 1 }, (_, line) => (
          <li key={line} style={{ bottom: `${(line / LINES) * 100}%` }}>
            <span>${((top * line) / LINES).toLocaleString("en-US", { maximumFractionDigits: 2 })}</span>
          </li>
        ))}
      </ol>
      <div className={classes.bars} style={{ height: HEIGHT }}>
        {dates.map((date, at) => (
          <Tooltip key={date} label={`${dated(date)}: $${(totals[at] ?? 0).toFixed(2)}`}>
            <div className={classes.bar}>
              {parts.map((part) => {
                const share = (part.values[at] ?? 0) / top;
                return share > 0 ? (
                  <i key={part.label} style={{ height: `${share * 100}%`, background: `var(--m-${part.color})` }} />
                ) : null;
              })}
            </div>
          </Tooltip>
        ))}
      </div>
      <ol className={classes.dates} aria-hidden>
        {dates.map((date, at) => (
          <li key={date} data-minor={(dates.length - 1 - at) % (2 * every) !== 0 || undefined}>
            {(dates.length - 1 - at) % every === 0 ? <span>{dated(date)}</span> : null}
          </li>
        ))}
      </ol>
    </div>
  );
}

function dated(date: string): string {
  return dayAndMonth(Date.parse(`${date}T00:00:00Z`) / 1000);
}
