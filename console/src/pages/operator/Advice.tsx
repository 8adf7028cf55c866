import { Copy } from "@/components/Copy";

import classes from "./Health.module.css";

/** A program and what it is called with, "moor backup FILE"; a lone word is a name, and "GET /path" no command. */
const COMMAND = /^[a-z][\w-]* /;

/** What to do, with its commands to be copied. */
export function Advice({ text }: { text: string }) {
  return (
    <p className={classes.advice}>
      {text.split("`").map((part, index) => {
        if (index % 2 === 0) return part;
        if (!COMMAND.test(part)) return <code key={index}>{part}</code>;
        return (
          <span key={index} className={classes.command}>
            <code>{part}</code>
            <Copy text={part} label={`Copy ${part}`} />
          </span>
        );
      })}
    </p>
  );
}
