import { Button } from "@mantine/core";
import { CircleAlert, CircleCheck, CircleHelp, ExternalLink } from "lucide-react";

import { Copy } from "@/components/Copy";
import { LinkTo } from "@/components/LinkTo";
import { Card } from "@/components/Page";
import { Sentence } from "@/components/Sentence";

import type { SetupStep } from "./queries";
import { about, lacking } from "./setup";
import classes from "./Setup.module.css";

const ICON = { size: 16, strokeWidth: 1.5 };
const ICONS = { missing: CircleAlert, unknown: CircleHelp, done: CircleCheck };
const WORDS = { missing: "Missing", unknown: "Not known", done: "Done" };

/** What is missing first, with what follows from it; what is done is one line with the fact that proves it. */
export function SetupCard({ steps }: { steps: SetupStep[] }) {
  const done = steps.filter((one) => one.state === "done").length;
  const missing = lacking(steps);
  return (
    <Card
      flush
      label="Set-up"
      title={
        <span className={classes.title}>
          Set-up <small>{`${done} of ${steps.length} done`}</small>
          <span className={classes.segments} aria-hidden>
            {Array.from({ length: steps.length }, (_, index) => (
              <i key={index} data-done={index < done || undefined} />
            ))}
          </span>
        </span>
      }
      action={
        missing ? (
          <span className={classes.missing}>
            <CircleAlert {...ICON} aria-hidden />
            {missing}
          </span>
        ) : null
      }
    >
      <ul className={classes.steps}>
        {steps.map((step) => (
          <Step key={step.name} step={step} />
        ))}
      </ul>
    </Card>
  );
}

function Step({ step }: { step: SetupStep }) {
  const { label, learn, more } = about(step);
  const Icon = ICONS[step.state];
  return (
    <li className={classes.step} data-state={step.state}>
      <Icon {...ICON} role="img" aria-label={WORDS[step.state]} />
      <strong>{label}</strong>
      <div className={classes.said}>
        <p>
          <Sentence text={step.message} />
        </p>
        {step.consequence ? <p className={classes.consequence}>{step.consequence}</p> : null}
        {step.settings.length > 0 ? (
          <p className={classes.settings}>
            {step.settings.map((name) => (
              <code key={name}>{name}</code>
            ))}
          </p>
        ) : null}
      </div>
      {step.command ? (
        <span className={classes.command}>
          <code>{step.command}</code>
          <Copy text={step.command} label={`Copy the command for ${label}`} />
        </span>
      ) : null}
      {step.state === "missing" ? (
        <Button
          component="a"
          href={learn}
          target="_blank"
          rel="noopener"
          variant="default"
          rightSection={<ExternalLink size={14} strokeWidth={1.5} aria-hidden />}
          aria-label={`Set up ${label}, in the handbook`}
        >
          Set up
        </Button>
      ) : more ? (
        <LinkTo to={more.to} aria-label={`${more.label}: ${label}`}>
          {more.label}
        </LinkTo>
      ) : (
        <a href={learn} target="_blank" rel="noopener" aria-label={`Handbook: ${label}`}>
          Handbook
        </a>
      )}
    </li>
  );
}
