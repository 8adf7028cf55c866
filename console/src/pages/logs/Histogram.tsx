import { useQuery } from "@tanstack/react-query";

import { clockTime } from "@/components/times";

import type { Filter } from "./filter";
import classes from "./Logs.module.css";
import { histogramQuery } from "./queries";

interface HistogramProps {
  containerId: string;
  filter: Filter;
  /** Show the line that so many are newer than. */
  goTo: (row: number) => void;
}

/** How many lines when, what went to stderr in red. A click on a bar shows its lines, as scrolling there does. */
export function Histogram({ containerId, filter, goTo }: HistogramProps) {
  const { data } = useQuery(histogramQuery(containerId, filter));
  const out = data?.series["stdout"] ?? [];
  const err = data?.series["stderr"] ?? [];
  const ours = data?.series["moorage"] ?? [];
  const times = data?.times ?? [];
  const sums = times.map((_, index) => (out[index] ?? 0) + (err[index] ?? 0) + (ours[index] ?? 0));
  const highest = Math.max(1, ...sums);
  const total = sums.reduce((all, one) => all + one, 0);
  const share = (count: number) => `${(count / highest) * 100}%`;
  const marks = [0, Math.floor(times.length / 3), Math.floor((times.length * 2) / 3), times.length - 1];
  return (
    <figure className={classes.histogram} aria-label={`${total} lines over time`}>
      <div className={classes.bars}>
        {times.map((time, index) => (
          <span
            key={time}
            onClick={() => goTo(sums.slice(index + 1).reduce((newer, one) => newer + one, 0))}
            title={`${clockTime(time)}: ${sums[index]} lines, ${err[index] ?? 0} to err`}
          >
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
