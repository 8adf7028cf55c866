import { UnstyledButton } from "@mantine/core";
import { useEffect, useRef } from "react";

import { clockTime, shortTime } from "@/components/times";
import { useNow } from "@/components/useNow";

import { change, type Numbered, sentences } from "./decisions";
import classes from "./Metrics.module.css";

interface DecisionListProps {
  decisions: Numbered[];
  selected: number | null;
  select: (number: number) => void;
}

/** Entry and pin select each other. */
export function DecisionList({ decisions, selected, select }: DecisionListProps) {
  return (
    <ol className={classes.decisions} aria-label="Autoscaler decisions">
      {decisions.map((one) => (
        <Entry key={one.number} one={one} selected={one.number === selected} select={() => select(one.number)} />
      ))}
    </ol>
  );
}

function Entry({ one, selected, select }: { one: Numbered; selected: boolean; select: () => void }) {
  const now = useNow(60_000);
  const entry = useRef<HTMLLIElement>(null);
  const { decision } = one;
  const [seen, ...bound] = sentences(decision.reason);
  const isToday = new Date(decision.at).toDateString() === now.toDateString();
  useEffect(() => {
    if (selected) entry.current?.scrollIntoView({ block: "nearest" });
  }, [selected]);
  return (
    <li ref={entry}>
      <UnstyledButton className={classes.decision} data-selected={selected || undefined} aria-pressed={selected} onClick={select}>
        <span className={classes.number}>{one.number}</span>
        <span className={classes.decisionText}>
          <strong>{change(decision)}</strong>
          <span>{seen}</span>
          {bound.map((sentence) => (
            <span key={sentence} data-tone={decision.limited_by ? "warn" : undefined}>
              {sentence}
            </span>
          ))}
        </span>
        <time dateTime={decision.at}>{isToday ? clockTime(decision.at) : shortTime(decision.at, now)}</time>
      </UnstyledButton>
    </li>
  );
}
