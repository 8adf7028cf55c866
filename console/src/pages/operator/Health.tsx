import { useSuspenseQuery } from "@tanstack/react-query";

import { handbook } from "@/addresses/handbook";
import { Card, Page } from "@/components/Page";
import { Sentence } from "@/components/Sentence";
import { shortTime } from "@/components/times";
import { useNow } from "@/components/useNow";

import classes from "./Health.module.css";
import { HealthIcon } from "./HealthIcon";
import { healthQuery, type Part } from "./queries";

const SUMMARY: Record<Part["state"], string> = {
  ok: "Everything works",
  warning: "Works, but something wants attention",
  failing: "Something does not work",
  unknown: "Not everything is known",
};
const ORDER: Part["state"][] = ["failing", "warning", "unknown", "ok"];

/** Every part of the installation: how it is, since when, and what to do about it. The worst first. */
export function Health() {
  const { data: health } = useSuspenseQuery(healthQuery);
  const parts = health.parts.toSorted((one, other) => ORDER.indexOf(one.state) - ORDER.indexOf(other.state));
  return (
    <Page title="Health" learn={handbook.troubleshooting} hint={`${health.parts.filter((one) => one.state === "ok").length} of ${health.parts.length} parts are well.`}>
      <p className={classes.summary} data-state={health.state} role="status">
        <HealthIcon state={health.state} />
        {SUMMARY[health.state]}
      </p>
      <Card flush label="Parts">
        {/* Nothing in it can be pressed, and the keyboard must still be able to scroll it. */}
        <ul tabIndex={0} aria-label="Parts">
          {parts.map((part) => (
            <PartRow key={part.name} part={part} />
          ))}
        </ul>
      </Card>
    </Page>
  );
}

function PartRow({ part }: { part: Part }) {
  const now = useNow(30_000);
  return (
    <li className={classes.part} data-state={part.state}>
      <HealthIcon state={part.state} />
      <strong>{part.name}</strong>
      <div>
        <p>
          <Sentence text={part.message} />
        </p>
        {part.what_to_do ? (
          <p className={classes.advice}>
            <Sentence text={part.what_to_do} />
          </p>
        ) : null}
      </div>
      {part.since && part.state !== "ok" ? <time dateTime={part.since}>since {shortTime(part.since, now)}</time> : null}
    </li>
  );
}
