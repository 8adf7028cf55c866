import { memo } from "react";

import { parseAnsi } from "./ansi";
import classes from "./Ansi.module.css";

const COLORS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

/** A line as it was printed, in the console's own colours. Whatever it contains stays text. */
export const AnsiText = memo(function AnsiText({ text }: { text: string }) {
  return (
    <span className={classes.line}>
      {parseAnsi(text).map((part, index) => (
        <span
          key={index}
          className={part.bold ? classes.bold : undefined}
          data-color={part.color === undefined ? undefined : COLORS[part.color]}
          data-dim={part.dim || undefined}
        >
          {part.text}
        </span>
      ))}
    </span>
  );
});
