import { took } from "@/containers/requests/words";

import { lookOf, type Phase, spans, sum, ticks, wokenSpan } from "./phases";
import classes from "./Request.module.css";

/** Of the bar, in percent: a word has room from here on. */
const ROOM = 10;

/** One request to scale. The table below it says the same in numbers. */
export function PhaseBar({ phases }: { phases: Phase[] }) {
  const total = sum(phases);
  const places = spans(phases);
  const woken = wokenSpan(phases);
  return (
    <div className={classes.phaseBar} aria-hidden>
      {woken ? (
        <div className={classes.bracket} style={{ left: `${woken.from}%`, width: `${woken.width}%` }}>
          <span>woken {(woken.ms / 1000).toFixed(2)} s</span>
        </div>
      ) : null}
      <div className={classes.bar}>
        {phases.map((phase, index) => {
          const { color, label } = lookOf(phase);
          const { width } = places[index]!;
          return phase.duration_ms > 0 ? (
            <i key={phase.name} data-phase={color} style={{ flexGrow: phase.duration_ms }}>
              {label && width > ROOM ? label : null}
            </i>
          ) : null;
        })}
      </div>
      <div className={classes.scale}>
        {ticks(total).map((at) => (
          <span key={at} style={{ left: `${(at / Math.max(total, 1)) * 100}%` }} data-first={at === 0 || undefined}>
            {at === 0 ? "0" : at % 1000 === 0 ? `${at / 1000} s` : took(at)}
          </span>
        ))}
        <span data-last>{took(total)}</span>
      </div>
    </div>
  );
}
