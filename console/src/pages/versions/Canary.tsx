import { Button, Progress, Slider, Switch } from "@mantine/core";
import { useEffect, useState } from "react";

import type { Container } from "@/api/queries";
import { Figures } from "@/components/Figures";
import { Card } from "@/components/Page";
import { duration, shortTime } from "@/components/times";
import { useNow } from "@/components/useNow";

import { useCanary, type Version } from "./queries";
import classes from "./Versions.module.css";

const MOST_PERCENT = 50;
const USUAL_RULE_S = 1800;

type Rollout = NonNullable<Container["rollout"]>;

/** A version that gets a share of the requests beside the one that serves: which is better, and who decides when. */
export function Canary({ container, versions }: { container: Container; versions: Version[] }) {
  const now = useNow(1_000);
  const { change, promote, abort } = useCanary(container);
  const { rollout } = container;
  if (!rollout) return null;
  const share = rollout.share ?? 0;
  const [old, fresh] = [rollout.from_version, rollout.version].map((number) => versions.find((one) => one.version === number));
  return (
    <Card
      title={`Version ${rollout.version} is on trial beside version ${rollout.from_version}`}
      hint={`Canary ${share} %, since ${shortTime(rollout.begun_at, now)}`}
      action={
        <>
          <Button variant="default" color="var(--m-bad)" loading={abort.isPending} onClick={() => abort.mutate()}>
            Abort
          </Button>
          <Button loading={promote.isPending} disabled={!rollout.serving_since} onClick={() => promote.mutate()}>
            Promote version {rollout.version}
          </Button>
        </>
      }
    >
      <div className={classes.both}>
        {old ? <Side version={old} percent={100 - share} /> : null}
        {fresh ? <Side version={fresh} percent={share} against={old} /> : null}
      </div>
      <Share key={share} rollout={rollout} choose={(percent) => change.mutate({ share: percent })} />
      <Rule rollout={rollout} now={now} choose={(seconds) => change.mutate({ share, promote_after_s: seconds })} />
    </Card>
  );
}

function Side({ version, percent, against }: { version: Version; percent: number; against?: Version | undefined }) {
  const answers = version.answers ?? 0;
  const errors = version.errors ?? 0;
  return (
    <section aria-label={`Version ${version.version}`}>
      <h3>
        Version {version.version} <code>{version.image}</code>
      </h3>
      <Figures
        figures={[
          { name: "Requests", value: answers.toLocaleString("en"), note: `${percent} % of all` },
          {
            name: "Errors",
            value: answers > 0 ? `${((100 * errors) / answers).toFixed(2)} %` : "–",
            note: `${errors.toLocaleString("en")} requests`,
          },
          { name: "Response p95", value: ms(version.response_p95_ms), note: compared(version, against) ?? `p50 ${ms(version.response_p50_ms)}` },
          { name: "Replicas", value: version.replicas_ready ?? 0 },
        ]}
      />
    </section>
  );
}

function Share({ rollout, choose }: { rollout: Rollout; choose: (percent: number) => void }) {
  const [percent, move] = useState(rollout.share ?? 1);
  useEffect(() => move(rollout.share ?? 1), [rollout.share]);
  return (
    <div className={classes.share}>
      <div className={classes.shareNames}>
        <span>
          Version {rollout.from_version} <strong>{100 - percent} %</strong>
        </span>
        <span>Share of requests, at most {MOST_PERCENT} %. Its replicas are paid like any others.</span>
        <span>
          Version {rollout.version} <strong>{percent} %</strong>
        </span>
      </div>
      <Slider
        thumbLabel="Share of requests for the canary, in percent"
        min={1}
        max={MOST_PERCENT}
        value={percent}
        onChange={move}
        onChangeEnd={choose}
        label={(value) => `${value} %`}
      />
    </div>
  );
}

function Rule({ rollout, now, choose }: { rollout: Rollout; now: Date; choose: (seconds: number | null) => void }) {
  const wanted = rollout.promote_after_s;
  const minutes = (wanted ?? USUAL_RULE_S) / 60;
  const served = rollout.serving_since ? (now.getTime() - new Date(rollout.serving_since).getTime()) / 1000 : 0;
  return (
    <div className={classes.rule}>
      <Switch
        checked={wanted !== null && wanted !== undefined}
        onChange={(event) => choose(event.currentTarget.checked ? USUAL_RULE_S : null)}
        label={`Promote at ${minutes} min if errors ≤ ${rollout.error_bound_percent ?? 1} %`}
      />
      <span className={classes.quiet}>Above that, or clearly slower, it goes back to version {rollout.from_version} at once.</span>
      {wanted ? (
        <span className={classes.progress}>
          <Progress value={Math.min(100, (100 * served) / wanted)} aria-label="Time that it has served" />
          {duration(served * 1000)} of {minutes} min
        </span>
      ) : null}
    </div>
  );
}

function ms(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : `${Math.round(value).toLocaleString("en")} ms`;
}

function compared(version: Version, against: Version | undefined): string | undefined {
  const [mine, theirs] = [version.response_p95_ms, against?.response_p95_ms];
  if (!mine || !theirs) return undefined;
  const percent = Math.round((100 * (mine - theirs)) / theirs);
  if (percent === 0) return "as fast";
  return percent < 0 ? `${-percent} % faster` : `${percent} % slower`;
}
