import { Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import type { Container } from "@/api/queries";
import { Card } from "@/components/Page";
import { STATES, type State } from "@/components/state";
import { dateAndTime, duration } from "@/components/times";
import { useNow } from "@/components/useNow";
import { activityQuery, type Activity } from "@/containers/queries";

import classes from "./Overview.module.css";

const CHANGES = 200;

interface Span {
  state: State;
  from: number;
  to: number;
}

/** Which states it was in, drawn to scale from its first known change until now. */
export function StateTimeline({ container }: { container: Container }) {
  const now = useNow(5_000);
  const activities = useQuery(activityQuery(container.id, CHANGES)).data ?? [];
  const spans = spansOf(activities, container, now.getTime());
  const first = spans[0];
  if (!first) return null;
  const whole = now.getTime() - first.from || 1;
  const seen = [...new Set(spans.map((one) => STATES[one.state].tone))];
  return (
    <Card
      title="States"
      action={
        <div className={classes.legend}>
          {seen.map((tone) => (
            <span key={tone}>
              <i data-tone={tone} /> {[...new Set(spans.filter((one) => STATES[one.state].tone === tone).map((one) => STATES[one.state].word))].join(", ")}
            </span>
          ))}
        </div>
      }
    >
      <div className={classes.timeline} role="img" aria-label={described(spans)}>
        {spans.map((span) => (
          <Tooltip
            key={span.from}
            label={`${STATES[span.state].word} for ${duration(span.to - span.from)}, from ${dateAndTime(new Date(span.from).toISOString(), now)}`}
          >
            <span
              className={classes.span}
              data-tone={STATES[span.state].tone}
              style={{ flexGrow: (span.to - span.from) / whole, flexBasis: 0 }}
            />
          </Tooltip>
        ))}
      </div>
      <p className={classes.ends}>
        <span>{dateAndTime(new Date(first.from).toISOString(), now)}</span>
        <span>now</span>
      </p>
    </Card>
  );
}

function spansOf(activities: Activity[], container: Container, now: number): Span[] {
  const changes = activities
    .filter((one) => one.kind === "container.state" && typeof one.details["to"] === "string")
    .map((one) => ({ state: one.details["to"] as State, at: new Date(one.at).getTime() }))
    .reverse();
  const created = new Date(container.created_at).getTime();
  const known = activities.length < CHANGES ? [{ state: "PENDING" as State, at: created }, ...changes] : changes;
  return known
    .map((one, index) => ({ state: one.state, from: one.at, to: known[index + 1]?.at ?? now }))
    .filter((one) => one.to > one.from);
}

function described(spans: Span[]): string {
  return spans.map((one) => `${STATES[one.state].word} for ${duration(one.to - one.from)}`).join(", then ");
}
