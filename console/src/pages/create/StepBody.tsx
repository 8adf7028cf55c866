import { Button } from "@mantine/core";
import { Info } from "lucide-react";

import { AdvancedFields } from "@/containers/form/AdvancedFields";
import { BaseFields } from "@/containers/form/BaseFields";
import { EXAMPLE, type FieldsProps, type Step } from "@/containers/form/draft";
import { Preflight } from "@/containers/form/Preflight";
import { ResourceFields } from "@/containers/form/ResourceFields";

import classes from "./Create.module.css";
import { Review } from "./Review";

interface StepBodyProps extends FieldsProps {
  step: Step;
  projectId: string;
  go: (step: Step) => void;
}

export function StepBody({ step, projectId, go, ...fields }: StepBodyProps) {
  switch (step) {
    case "base":
      return (
        <>
          <StepHead title="Base settings" text="What to run, and where its image is.">
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
          <StepHead title="Resources" text="Each replica runs on one instance of the type you pick." />
          <ResourceFields {...fields} />
          <p className={classes.note}>
            <Info size={16} strokeWidth={1.5} aria-hidden /> A replica that never becomes ready is never charged.
          </p>
        </>
      );
    case "advanced":
      return (
        <>
          <StepHead title="Advanced" text="How it starts, where it listens, what it knows." />
          <div className={classes.card}>
            <AdvancedFields {...fields} />
          </div>
        </>
      );
    case "review":
      return (
        <>
          <StepHead title="Review" text="Starts at once. You can stop it at any time." />
          <Preflight projectId={projectId} draft={fields.draft} />
          <Review draft={fields.draft} go={go} />
        </>
      );
  }
}

function StepHead({ title, text, children }: { title: string; text: string; children?: React.ReactNode }) {
  return (
    <header className={classes.head}>
      <div>
        <h2>{title}</h2>
        <p>{text}</p>
      </div>
      {children}
    </header>
  );
}
