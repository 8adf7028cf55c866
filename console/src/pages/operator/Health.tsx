import { useSuspenseQuery } from "@tanstack/react-query";

import { handbook } from "@/addresses/handbook";
import { paths } from "@/addresses/paths";
import { LinkTo } from "@/components/LinkTo";
import { Card, Page } from "@/components/Page";
import { Sentence } from "@/components/Sentence";
import { clockTime, fullMoment, shortTime, zone } from "@/components/times";
import { useNow } from "@/components/useNow";

import { Advice } from "./Advice";
import { type Cause, causesOf, verdictOf, working } from "./causes";
import classes from "./Health.module.css";
import { HealthIcon } from "./HealthIcon";
import { healthQuery } from "./queries";

/** Every part of the installation: how it is, since when, and what to do about it. The worst first. */
export function Health() {
  const { data: health, dataUpdatedAt: checkedAt } = useSuspenseQuery(healthQuery);
  const checked = clockTime(new Date(checkedAt).toISOString());
  return (
    <Page title="Health" learn={handbook.troubleshooting} hint={`${working(health.parts)}. Checked ${checked}, ${zone}.`}>
      <p className={classes.summary} data-state={health.state} role="status">
        <HealthIcon state={health.state} />
        {verdictOf(health.parts)}
      </p>
      <Card flush label="Parts">
        {/* Where nothing in it can be pressed, the keyboard must still be able to scroll it. */}
        <ul tabIndex={0} aria-label="Parts">
          {causesOf(health.parts).map((cause) => (
            <CauseRow key={cause.key} cause={cause} />
          ))}
        </ul>
      </Card>
    </Page>
  );
}

function CauseRow({ cause }: { cause: Cause }) {
  const now = useNow(30_000);
  return (
    <li className={classes.part} data-state={cause.state}>
      <HealthIcon state={cause.state} />
      <strong>{cause.isMachine ? <LinkTo to={paths.operator("machines")}>{cause.title}</LinkTo> : cause.title}</strong>
      <div>
        <p className={classes.message}>
          <Sentence text={cause.message} />
        </p>
        {cause.advice ? <Advice text={cause.advice} /> : null}
        {cause.members.length > 1 ? <Members cause={cause} /> : null}
      </div>
      {cause.since && cause.state !== "ok" ? (
        <time dateTime={cause.since} title={fullMoment(cause.since)}>
          since {shortTime(cause.since, now)}
        </time>
      ) : null}
    </li>
  );
}

function Members({ cause }: { cause: Cause }) {
  return (
    <details className={classes.members}>
      <summary>Show all {cause.members.length}</summary>
      <ul>
        {cause.members.map(({ word, name }) => (
          <li key={name}>
            {word} {word === name ? null : <code>{name}</code>}
          </li>
        ))}
      </ul>
    </details>
  );
}
