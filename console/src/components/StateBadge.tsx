import { type Look, STATES } from "./state";
import { StateIcon } from "./StateIcon";
import classes from "./State.module.css";

/** Icon and word. `bare` is for a bar or a list, where a frame would be one line too many. */
export function StateBadge({ state, bare = false }: { state: Look; bare?: boolean }) {
  const { word, tone } = STATES[state];
  return (
    <span className={bare ? classes.bare : classes.badge} data-tone={tone}>
      <StateIcon state={state} size={bare ? 16 : 14} />
      {word}
    </span>
  );
}
