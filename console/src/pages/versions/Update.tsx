import { Button } from "@mantine/core";

import type { Container } from "@/api/queries";
import { Figures } from "@/components/Figures";
import { Card } from "@/components/Page";
import { shortTime } from "@/components/times";
import { useNow } from "@/components/useNow";

import type { Version } from "./queries";
import classes from "./Versions.module.css";

interface UpdateProps {
  container: Container;
  versions: Version[];
  back: (version: number) => void;
}

/** The two versions of an update that goes on, side by side. */
export function Update({ container, versions, back }: UpdateProps) {
  const now = useNow(10_000);
  const { rollout } = container;
  if (!rollout) return null;
  const both = [rollout.from_version, rollout.version].map((number) => versions.find((one) => one.version === number));
  return (
    <Card
      title={`Version ${rollout.version} is on trial${rollout.beside ? ` beside version ${rollout.from_version}` : ""}`}
      hint={`since ${shortTime(rollout.begun_at, now)}`}
      action={
        rollout.strategy === "rolling" ? (
          <Button variant="default" onClick={() => back(rollout.from_version)}>
            Back to version {rollout.from_version}
          </Button>
        ) : null
      }
    >
      <div className={classes.both}>
        {both.map((version) => (version ? <Answers key={version.version} version={version} /> : null))}
      </div>
      <p className={classes.quiet}>
        {whatFollows(rollout)}
      </p>
    </Card>
  );
}

function whatFollows(rollout: NonNullable<Container["rollout"]>): string {
  if (rollout.strategy === "replace") {
    return "The old replicas stop before it starts. If it does not become healthy, the settings from before come back.";
  }
  if (!rollout.beside) return "Its image is fetched, or its first replica starts. What served before serves on.";
  if (rollout.watch_s === 0) return "It takes over as soon as its replicas serve.";
  return `When it has served well for ${rollout.watch_s} s it takes over. If it fails or answers too many errors, it goes back by itself.`;
}

function Answers({ version }: { version: Version }) {
  const answers = version.answers ?? 0;
  const errors = version.errors ?? 0;
  const percent = answers > 0 ? `${((100 * errors) / answers).toFixed(2)} %` : "–";
  return (
    <section aria-label={`Version ${version.version}`}>
      <h3>
        Version {version.version} <code>{version.image}</code>
      </h3>
      <Figures
        figures={[
          { name: "Answers", value: answers.toLocaleString("en") },
          { name: "Errors", value: percent, note: `${errors.toLocaleString("en")} answers` },
        ]}
      />
    </section>
  );
}
