import type { ReactNode } from "react";

import classes from "./Figures.module.css";
import type { Tone } from "./state";

interface Figure {
  name: string;
  value: ReactNode;
  /** One quiet line below. */
  note?: ReactNode;
  tone?: Tone | undefined;
}

/** A few numbers that answer the page's question. */
export function Figures({ figures }: { figures: Figure[] }) {
  return (
    <dl className={classes.figures}>
      {figures.map(({ name, value, note, tone }) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd className={classes.value} data-tone={tone}>
            {value}
          </dd>
          {note ? <dd className={classes.note}>{note}</dd> : null}
        </div>
      ))}
    </dl>
  );
}
