import { Copy } from "./Copy";
import classes from "./Secret.module.css";

/** Something that is shown this once, to be copied. */
export function Secret({ text, label }: { text: string; label: string }) {
  return (
    <div className={classes.secret}>
      <code>{text}</code>
      <Copy text={text} label={label} withLabel />
    </div>
  );
}
