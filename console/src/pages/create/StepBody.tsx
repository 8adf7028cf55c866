import { Button } from "@mantine/core";
import { Info } from "lucide-react";

import { handbook } from "@/addresses/handbook";
import { HandbookLink } from "@/components/HandbookLink";
import { AdvancedFields } from "@/containers/form/AdvancedFields";
import { BaseFields } from "@/containers/form/BaseFields";
import { EXAMPLE } from "@/containers/form/draft";
import { Preflight } from "@/containers/form/Preflight";
import { ResourceFields } from "@/containers/form/ResourceFields";

import classes from "./Create.module.css";
import { Review } from "./Review";
import { type ModelPlan, presetVariables } from "./start/origin";
import type { StartProps } from "./start/props";
import { Start } from "./start/Start";
import type { CreateStep } from "./steps";

interface StepBodyProps extends Omit<StartProps, "goOn"> {
  step: CreateStep;
  projectId: string;
  go: (step: CreateStep) => void;
}

export function StepBody({ step, projectId, go, ...start }: StepBodyProps) {
  const { origin, asked, token } = start;
  const fields = { draft: start.draft, change: start.change, errors: start.errors };
  const filled = origin.kind === "image" ? null : origin.filled;
  const preset = presetVariables(filled, token).map((one) => one.name);
  switch (step) {
    case "start":
      return (
        <>
          <StepHead learn={handbook.models} title="Start" text="What should run? Choose one way; you can change everything later." />
          <Start {...start} goOn={() => go("base")} />
        </>
      );
    case "base":
      return (
        <>
          <StepHead learn={handbook.privateRegistry} title="Base settings" text="What to run, and where its image is.">
            {fields.draft.image ? null : (
              <Button variant="default" onClick={() => fields.change(EXAMPLE)}>
                Use the example
              </Button>
            )}
          </StepHead>
          <div className={classes.card}>
            <BaseFields {...fields} />
          </div>
          <Preflight projectId={projectId} draft={fields.draft} change={fields.change} />
        </>
      );
    case "resources":
      return (
        <>
          <StepHead learn={handbook.autoscaling} title="Resources" text="Each replica runs on one instance of the type you pick." />
          <ResourceFields {...fields} obstacles={filled ? obstaclesOf(asked.plan) : NONE} />
          <p className={classes.note}>
            <Info size={16} strokeWidth={1.5} aria-hidden /> A replica that never becomes ready is never charged, and the balance cannot go below zero.
          </p>
        </>
      );
    case "advanced":
      return (
        <>
          <StepHead learn={handbook.troubleshooting} title="Advanced" text="How it starts, where it listens, what it knows." />
          <div className={classes.card}>
            <AdvancedFields {...fields} />
          </div>
          {preset.length > 0 ? (
            <p className={classes.note}>
              <Info size={16} strokeWidth={1.5} aria-hidden />
              <span>
                {filled?.templateTitle} is also given <code>{preset.join(", ")}</code>. A variable of the same name above replaces it.
              </span>
            </p>
          ) : null}
        </>
      );
    case "review":
      return (
        <>
          <StepHead title="Review" text="Starts at once. You can stop it at any time." />
          <Preflight projectId={projectId} draft={fields.draft} />
          <Review draft={fields.draft} go={go} filled={filled} preset={preset} />
        </>
      );
  }
}

const NONE = new Map<string, string>();

/** Why the model does not fit, by the names of instance types. */
function obstaclesOf(plan: ModelPlan | null): Map<string, string> {
  const short = plan?.instance_types.filter((one) => !one.fits) ?? [];
  return new Map(short.map((one) => [one.instance_type, one.reason ?? "The model does not fit."]));
}

interface StepHeadProps {
  title: string;
  text: string;
  learn?: string;
  children?: React.ReactNode;
}

function StepHead({ title, text, learn, children }: StepHeadProps) {
  return (
    <header className={classes.head}>
      <div>
        <h2>{title}</h2>
        <p>
          <span>{text}</span> {learn ? <HandbookLink to={learn} about={title} /> : null}
        </p>
      </div>
      {children}
    </header>
  );
}
