import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";

import { type CreateSearch, paths } from "@/addresses/paths";
import { type Draft, type Errors, mistakes } from "@/containers/form/draft";

import { BalanceCard } from "./BalanceCard";
import classes from "./Create.module.css";
import { Footer } from "./Footer";
import { type Kept, keepDraft } from "./keptDraft";
import { PricePanel } from "./PricePanel";
import { ReviewSide } from "./ReviewSide";
import { chosenFit, cleared, fill, filledFrom, isAsFilled, isOffered, type Origin } from "./start/origin";
import { mistakesOfStart } from "./start/mistakes";
import { useModelPlan } from "./start/useModelPlan";
import { StepBar } from "./StepBar";
import { StepBody } from "./StepBody";
import { CREATE_STEPS, type CreateStep, createStepOf, reachable } from "./steps";
import { UntilItAnswers } from "./UntilItAnswers";
import { useDeploy } from "./useDeploy";

export function CreateFlow({ projectId, begin }: { projectId: string; begin: Kept }) {
  const [{ draft, origin }, setKept] = useState(begin);
  /** In this page's memory alone. */
  const [token, setToken] = useState("");
  // An image that was named goes on where it is described; a model is asked for again, as what fits may have changed.
  const [first] = useState<CreateStep>(begin.origin.kind === "image" && begin.draft.image ? "base" : "start");
  const [step, setStep] = useStep(projectId, first, { draft, origin });
  const [errors, setErrors] = useState<Errors>({});
  const [savedAt, setSavedAt] = useState<Date | null>(null);
  const keep = (next: Kept) => {
    setKept(next);
    setErrors({});
    keepDraft(projectId, next);
    setSavedAt(new Date());
  };
  const asked = useModelPlan(projectId, origin, draft.infrastructure, token);
  const fit = asked.plan ? chosenFit(asked.plan, origin, draft.infrastructure) : null;
  const cheapest = asked.plan?.instance_types.find((one) => one.fits && isOffered(one, draft.infrastructure));
  const isOwnImage = origin.kind === "image";
  /** What is shown is of a moment ago. */
  const isWaiting = step === "start" && asked.isAsking;

  const change = (changes: Partial<Draft>) => {
    const next = { ...draft, ...changes };
    // Another type may want another image and command.
    const chosen = changes.instanceType && !isOwnImage ? { ...origin, instanceType: changes.instanceType } : origin;
    keep(step === "start" || chosen === origin ? { draft: next, origin: chosen } : filledIn(next, chosen));
  };
  const changeOrigin = (changes: Partial<Origin>, settings: Partial<Draft> = {}) => {
    const next = { ...origin, ...changes };
    if (next.kind !== "image" || !next.filled) return keep({ draft: { ...draft, ...settings }, origin: next });
    const isTemplates = isAsFilled(draft, next.filled);
    const left = isTemplates ? cleared(draft, next.filled) : draft;
    return keep({ draft: { ...left, ...settings }, origin: { ...next, filled: null } });
  };
  /** What the plan says, in the fields of the other steps. */
  const filledIn = (into: Draft, from: Origin): Kept => {
    const chosen = asked.plan ? chosenFit(asked.plan, from, into.infrastructure) : null;
    const filled = asked.plan && chosen ? filledFrom(asked.plan, chosen, from) : null;
    if (!chosen || !filled) return { draft: into, origin: from };
    return { draft: fill(into, from.filled, filled, chosen.instance_type), origin: { ...from, filled } };
  };

  const scroller = useRef<HTMLDivElement>(null);
  // In braces: newer browsers answer a scroll with a promise, and an effect must not return one.
  useEffect(() => {
    scroller.current?.scrollTo(0, 0);
  }, [step]);

  // Whoever was sent back to a field can write there at once, and what no field can change is read out.
  useEffect(() => {
    if (Object.keys(errors).length > 0) scroller.current?.querySelector<HTMLElement>("[aria-invalid=true], [data-mistake]")?.focus();
  }, [errors, step]);

  /** Forward only over steps without a mistake; back always. */
  const go = (to: CreateStep) => {
    if (isWaiting) return;
    const next = step === "start" && to !== "start" && !isOwnImage ? filledIn(draft, origin) : { draft, origin };
    for (const passed of CREATE_STEPS.slice(0, CREATE_STEPS.indexOf(to))) {
      // Later steps follow from a plan that was once found good, and the API looks again at the end.
      if (passed === "start" && step !== "start") continue;
      const found = passed === "start" ? mistakesOfStart(next, asked, fit) : mistakes(next.draft, passed);
      if (Object.keys(found).length > 0) {
        setErrors(found);
        setStep(passed);
        return;
      }
    }
    if (next.draft !== draft) keep(next);
    setErrors({});
    setStep(to);
  };
  const deploy = useDeploy(projectId, { draft, filled: isOwnImage ? null : origin.filled, token }, (found) => {
    setErrors(found);
    setStep(createStepOf(found) ?? step);
  });
  const priced = step === "start" && !isOwnImage ? { ...draft, instanceType: fit?.instance_type ?? "" } : draft;
  return (
    <div className={classes.flow}>
      <StepBar projectId={projectId} step={step} go={go} savedAt={savedAt} />
      <div className={classes.body} ref={scroller}>
        <main className={classes.main}>
          <StepBody
            {...{ step, draft, change, errors, projectId, go, origin, changeOrigin, asked, token }}
            setToken={setToken}
          />
        </main>
        <aside className={classes.side} aria-label="Price">
          {step === "review" ? (
            <ReviewSide draft={draft} />
          ) : (
            <PricePanel
              draft={priced}
              isCheapest={step === "start" && fit !== null && fit === cheapest}
              {...(step === "start" && !isOwnImage && !asked.plan ? { hint: "Choose a model to see it." } : {})}
            />
          )}
          {step === "start" && asked.plan && fit ? <UntilItAnswers projectId={projectId} plan={asked.plan} fit={fit} /> : null}
          {step === "review" ? null : <BalanceCard draft={priced} />}
        </aside>
      </div>
      <Footer
        {...{ step, go, isWaiting }}
        draft={priced}
        deploy={() => deploy.mutate()}
        deploying={deploy.isPending}
      />
    </div>
  );
}

/** In the address, so that Back goes back a step and a reload stays where it was. */
function useStep(projectId: string, first: CreateStep, kept: Kept): [CreateStep, (step: CreateStep) => void] {
  const { step: named, copy } = useSearch({ strict: false }) as CreateSearch;
  const navigate = useNavigate();
  const step = reachable(named, first, kept);
  const setStep = (to: CreateStep) => {
    if (to !== step) void navigate({ to: paths.create(projectId, { ...(copy ? { copy } : {}), step: to }) });
  };
  return [step, setStep];
}
