import { UnstyledButton } from "@mantine/core";
import { Check, X } from "lucide-react";
import { Fragment } from "react";

import { paths } from "@/addresses/paths";
import { LinkTo } from "@/components/LinkTo";

import classes from "./Create.module.css";
import { CREATE_STEPS, type CreateStep, STEP_TITLES } from "./steps";

interface StepBarProps {
  projectId: string;
  step: CreateStep;
  go: (step: CreateStep) => void;
  savedAt: Date | null;
}

export function StepBar({ projectId, step, go, savedAt }: StepBarProps) {
  const at = CREATE_STEPS.indexOf(step);
  return (
    <header className={classes.bar}>
      <LinkTo to={paths.service(projectId)} className={classes.close} aria-label="Leave; the draft is kept">
        <X size={16} strokeWidth={1.5} />
      </LinkTo>
      <h1 className={classes.barTitle}>Create container</h1>
      <ol className={classes.steps}>
        {CREATE_STEPS.map((one, index) => (
          <Fragment key={one}>
            <li>
              <UnstyledButton
                className={classes.step}
                data-state={index < at ? "done" : index === at ? "now" : "later"}
                aria-current={index === at ? "step" : undefined}
                onClick={() => go(one)}
              >
                <span className={classes.stepMark}>
                  {index < at ? <Check size={14} strokeWidth={2} aria-label="done" /> : index + 1}
                </span>
                <span className={classes.stepName}>{STEP_TITLES[one]}</span>
              </UnstyledButton>
            </li>
          </Fragment>
        ))}
      </ol>
      <span className={classes.saved} role="status">
        {savedAt ? (
          <>
            <Check size={14} strokeWidth={1.5} aria-hidden /> Draft saved{" "}
            {savedAt.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })}
          </>
        ) : null}
      </span>
    </header>
  );
}
