import { fieldName } from "@/components/fieldNames";

import type { Version } from "./queries";
import classes from "./Versions.module.css";

const MASK = "***";

/** Field by field; a secret only says that it changed. */
export function Changes({ version }: { version: Version }) {
  if (version.changes.length === 0) return <>{version.version === 1 ? "Created" : "Nothing"}</>;
  return (
    <ul className={classes.changes}>
      {version.changes.map((change) => (
        <li key={change.field}>
          {fieldName(change.field)}{" "}
          {change.from === MASK || change.to === MASK ? (
            <span className={classes.secret}>changed</span>
          ) : (
            <>
              {change.from === null ? null : <del>{change.from}</del>} {change.to === null ? null : <ins>{change.to}</ins>}
            </>
          )}
        </li>
      ))}
    </ul>
  );
}
