import { Copy } from "@/components/Copy";

import classes from "./Operator.module.css";

/** An id or a reference, to be copied where it stands. */
export function CopiedCode({ text, label }: { text: string; label: string }) {
  return (
    <span className={classes.copied}>
      <code>{text}</code>
      <Copy text={text} label={label} />
    </span>
  );
}
