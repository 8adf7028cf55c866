import { memo } from "react";

import { marked, parseAnsi } from "./ansi";
import classes from "./Ansi.module.css";

const COLORS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

/** More than fits on any screen; a process may print ten million characters without a line end. */
const MOST_SHOWN = 4_000;

interface AnsiTextProps {
  text: string;
  most?: number;
  /** What somebody looks for: marked where it is, whatever its case. */
  mark?: string;
}

/** A line as it was printed, in the console's own colours. Whatever it contains stays text. */
export const AnsiText = memo(function AnsiText({ text, most = MOST_SHOWN, mark = "" }: AnsiTextProps) {
  return (
    <span className={classes.line}>
      {marked(parseAnsi(text.slice(0, most)), mark).map((part, index) => (
        <span
          key={index}
          className={part.bold ? classes.bold : undefined}
          data-color={part.color === undefined ? undefined : COLORS[part.color]}
          data-dim={part.dim || undefined}
        >
          {part.marked ? <mark className={classes.mark}>{part.text}</mark> : part.text}
        </span>
      ))}
      {text.length > most ? "…" : null}
    </span>
  );
});
