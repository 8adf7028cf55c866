import type { Machine } from "./machine";
import { type Day, dayInWords, isMeasured, markOf, percent, stripInWords } from "./presence";
import classes from "./Reliability.module.css";

/** The number first, then the days that it follows from. */
export function Reliability({ machine }: { machine: Machine }) {
  if (machine.reliability === null || !machine.joined_at) return "–";
  return (
    <span className={classes.reliability}>
      {isMeasured(machine) ? <strong>{percent(machine.reliability)}</strong> : <span className={classes.young}>too new</span>}
      <Strip days={machine.days ?? []} />
    </span>
  );
}

/** One bar a day, told by its height and not by its colour alone. */
function Strip({ days }: { days: Day[] }) {
  return (
    <span className={classes.strip} role="img" aria-label={stripInWords(days)}>
      {days.map((day) => (
        <i key={day.day} data-mark={markOf(day)} title={dayInWords(day)} />
      ))}
    </span>
  );
}

/** What the bars mean, and from when on a machine is trusted with more. */
export function StripLegend() {
  return (
    <div className={classes.legend}>
      <span>30 days:</span>
      <span>
        <i data-mark="there" /> there all day
      </span>
      <span>
        <i data-mark="away" /> away, announced: costs nothing
      </span>
      <span>
        <i data-mark="lost" /> lost without a word: counts tenfold
      </span>
      <span>
        <i data-mark="none" /> not joined yet
      </span>
      <span className={classes.tiers}>Standard from 97 %, Trusted from 99.5 % and 500 h</span>
    </div>
  );
}
