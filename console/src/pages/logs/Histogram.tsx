import { useQuery } from "@tanstack/react-query";

import { clockTime } from "@/components/times";

import type { Filter } from "./filter";
import classes from "./Logs.module.css";
import { histogramQuery } from "./queries";

/** How many lines when, what went to stderr in red. */
export function Histogram({ containerId, filter }: { containerId: string; filter: Filter }) {
  const { data } = useQuery(histogramQuery(containerId, filter));
  const out = data?.series["stdout"] ?? [];
  const err = data?.series["stderr"] ?? [];
  const times = data?.times ?? [];
  const sums = times.map((_, index) => (out[index] ?? 0) + (err[index] ?? 0));
  const highest = Math.max(1, ...sums);
  const total = sums.reduce((all, one) => all + one, 0);
  const share = (count: number) => `${(count / highest) * 100}%`;
  const marks = [0, Math.floor(times.length / 3), Math.floor((times.length * 2) / 3), times.length - 1];
  return (
    <figure className={classes.histogram} aria-label={`${total} lines over time`}>
      <div className={classes.bars}>
        {times.map((time, index) => (
          <span key={time} title={`${clockTime(time)}: ${sums[index]} lines, ${err[index] ?? 0} to err`}>
            <i style={{ height: share(out[index] ?? 0) }} />
            <b style={{ height: share(err[index] ?? 0) }} />
          </span>
        ))}
      </div>
      <figcaption className={classes.marks}>
        {marks.map((at, index) => (
          <span key={index}>{times[at] ? clockTime(times[at]).slice(0, 5) : ""}</span>
        ))}
      </figcaption>
    </figure>
  );
}
