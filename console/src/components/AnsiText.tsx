import { memo } from "react";

import { parseAnsi } from "./ansi";
import classes from "./Ansi.module.css";

const COLORS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

/** More than fits on any screen; a process may print ten million characters without a line end. */
const MOST_SHOWN = 4_000;

/** A line as it was printed, in the console's own colours. Whatever it contains stays text. */
export const AnsiText = memo(function AnsiText({ text, most = MOST_SHOWN }: { text: string; most?: number }) {
  return (
    <span className={classes.line}>
      {parseAnsi(text.slice(0, most)).map((part, index) => (
        <span
          key={index}
          className={part.bold ? classes.bold : undefined}
          data-color={part.color === undefined ? undefined : COLORS[part.color]}
          data-dim={part.dim || undefined}
        >
          {part.text}
        </span>
      ))}
      {text.length > most ? "…" : null}
    </span>
  );
});
