import classes from "./Service.module.css";

/** What a service can be. Only the first exists; the others are named so that nobody looks for them. */
export function Kinds() {
  return (
    <div className={classes.kinds}>
      <span className={classes.kind} data-current>
        Container
      </span>
      <span className={classes.kind}>
        Model <small>later</small>
      </span>
      <span className={classes.kind}>
        API <small>later</small>
      </span>
    </div>
  );
}
