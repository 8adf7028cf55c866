import { keepPreviousData, useQuery } from "@tanstack/react-query";

import { api, body } from "@/api/client";
import { clockTime } from "@/components/times";

import { asked, type Filter, from } from "./filter";
import classes from "./Logs.module.css";

const STEPS = 120;

/** How many lines when, what went to stderr in red. */
export function Histogram({ containerId, filter }: { containerId: string; filter: Filter }) {
  const { data } = useQuery({
    queryKey: ["containers", containerId, "log histogram", filter],
    queryFn: () =>
      body(
        api.GET("/api/v1/containers/{container_id}/logs/histogram", {
          params: { path: { container_id: containerId }, query: { ...asked(filter), from: from(filter), steps: STEPS } },
        }),
      ),
    placeholderData: keepPreviousData,
    refetchInterval: 15_000,
  });
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
