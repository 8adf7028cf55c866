import { useQuery } from "@tanstack/react-query";

import { size } from "@/components/sizes";
import { roughly } from "@/components/times";
import { preflightQuery } from "@/containers/form/Preflight";

import classes from "./Create.module.css";
import { firstAnswer, type Phase } from "./firstAnswer";
import type { Fit, ModelPlan } from "./start/origin";

interface UntilItAnswersProps {
  projectId: string;
  plan: ModelPlan;
  fit: Fit;
}

/** What happens before the first answer, in the order in which it happens, and how long each took before. */
export function UntilItAnswers({ projectId, plan, fit }: UntilItAnswersProps) {
  const { image = "", provider = "docker-hub", port = null } = fit.settings ?? {};
  const { data: registry, isPlaceholderData } = useQuery(preflightQuery(projectId, { image, port, registry: { provider } }));
  const imageBytes = (!isPlaceholderData && registry?.size_bytes) || null;
  const { phases, title, shares, note } = firstAnswer(plan, fit, imageBytes);
  return (
    <section className={classes.card} aria-label="Until it answers">
      <header className={classes.panelHead}>
        <h3 className={classes.panelTitle}>Until it answers</h3>
        <strong>{title}</strong>
      </header>
      {shares.length > 0 ? (
        <div className={classes.phaseBar} aria-hidden>
          {shares.map(({ name, share }) => (
            <i key={name} data-phase={name} style={{ flexGrow: share }} />
          ))}
        </div>
      ) : null}
      <ol className={classes.phases}>
        {phases.map((phase) => (
          <li key={phase.name} data-phase={phase.name}>
            {phase.label} {phase.bytes ? <small>{size(phase.bytes)}</small> : null}
            <Took phase={phase} />
          </li>
        ))}
      </ol>
      <p className={classes.footnote}>{note}</p>
    </section>
  );
}

function Took({ phase }: { phase: Phase }) {
  if (phase.seconds !== null) return <span>{roughly(phase.seconds)}</span>;
  const isSizeMissing = phase.name === "image" && phase.bytes === null;
  return <span data-unknown>{isSizeMissing ? "size not known" : "not measured yet"}</span>;
}
