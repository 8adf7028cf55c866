import { Button } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { ArrowRight, Zap } from "lucide-react";
import { useEffect, useRef, useState } from "react";

import { paths } from "@/addresses/paths";
import { api, body } from "@/api/client";
import { Problem } from "@/api/problem";
import { failed } from "@/components/toasts";
import { type Draft, type Errors, mistakes, type Step, stepOf, STEPS, toCreate } from "@/containers/form/draft";

import classes from "./Create.module.css";
import { dropDraft, keepDraft } from "./keptDraft";
import { PricePanel, usePrice } from "./PricePanel";
import { StepBar, STEP_TITLES } from "./StepBar";
import { StepBody } from "./StepBody";

export function CreateFlow({ projectId, begin }: { projectId: string; begin: Draft }) {
  const [draft, setDraft] = useState(begin);
  const [step, setStep] = useState<Step>("base");
  const [errors, setErrors] = useState<Errors>({});
  const [savedAt, setSavedAt] = useState<Date | null>(null);
  const change = (changes: Partial<Draft>) => {
    const next = { ...draft, ...changes };
    setDraft(next);
    setErrors({});
    keepDraft(projectId, next);
    setSavedAt(new Date());
  };
  const scroller = useRef<HTMLDivElement>(null);
  // In braces: newer browsers answer a scroll with a promise, and an effect must not return one.
  useEffect(() => {
    scroller.current?.scrollTo(0, 0);
  }, [step]);

  /** Forward only over steps without a mistake; back always. */
  const go = (to: Step) => {
    for (const passed of STEPS.slice(0, STEPS.indexOf(to))) {
      const found = mistakes(draft, passed);
      if (Object.keys(found).length > 0) {
        setErrors(found);
        setStep(passed);
        return;
      }
    }
    setErrors({});
    setStep(to);
  };
  const deploy = useDeploy(projectId, draft, (found) => {
    const first = Object.keys(found)[0];
    setErrors(found);
    if (first) setStep(stepOf(first));
  });
  return (
    <div className={classes.flow}>
      <StepBar projectId={projectId} step={step} go={go} savedAt={savedAt} />
      <div className={classes.body} ref={scroller}>
        <main className={classes.main}>
          <StepBody step={step} draft={draft} change={change} errors={errors} projectId={projectId} go={go} />
        </main>
        <aside className={classes.side} aria-label="Price">
          <PricePanel draft={draft} />
        </aside>
      </div>
      <Footer step={step} go={go} draft={draft} deploy={() => deploy.mutate()} deploying={deploy.isPending} />
    </div>
  );
}

function useDeploy(projectId: string, draft: Draft, refused: (errors: Errors) => void) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () =>
      body(
        api.POST("/api/v1/projects/{project_id}/containers", {
          params: { path: { project_id: projectId } },
          body: toCreate(draft),
        }),
      ),
    onSuccess: async (container) => {
      dropDraft(projectId);
      await queries.invalidateQueries({ queryKey: ["containers"] });
      await navigate({ to: paths.container(projectId, container.id) });
    },
    onError: (error) => {
      const fields = error instanceof Problem ? error.fields() : {};
      // A name that is taken is a conflict, not a field; it still belongs beside the name.
      if (error instanceof Problem && error.code === "name_taken") refused({ name: error.message });
      else if (Object.keys(fields).length > 0) refused(fields);
      else failed(error);
    },
  });
}

interface FooterProps {
  step: Step;
  go: (step: Step) => void;
  draft: Draft;
  deploy: () => void;
  deploying: boolean;
}

function Footer({ step, go, draft, deploy, deploying }: FooterProps) {
  const price = usePrice(draft);
  const at = STEPS.indexOf(step);
  const [before, after] = [STEPS[at - 1], STEPS[at + 1]];
  return (
    <footer className={classes.footer}>
      <span>Nothing is deployed or billed before you press Deploy.</span>
      {before ? (
        <Button variant="default" onClick={() => go(before)}>
          Back
        </Button>
      ) : null}
      {after ? (
        <Button onClick={() => go(after)} rightSection={<ArrowRight size={16} strokeWidth={1.5} />}>
          Next: {STEP_TITLES[after]}
        </Button>
      ) : (
        <Button onClick={deploy} loading={deploying} leftSection={<Zap size={16} strokeWidth={1.5} />}>
          Deploy{price ? ` for ${price.first}/h` : ""}
        </Button>
      )}
    </footer>
  );
}
