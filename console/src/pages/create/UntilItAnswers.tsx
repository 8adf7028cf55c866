import { useQuery } from "@tanstack/react-query";

import { size } from "@/components/sizes";
import { preflightQuery } from "@/containers/form/Preflight";

import classes from "./Create.module.css";
import type { Fit, ModelPlan } from "./start/origin";

interface UntilItAnswersProps {
  projectId: string;
  plan: ModelPlan;
  fit: Fit;
}

/** What happens before the first answer, in the order in which it happens. Bytes are known; how fast a machine gets them is not. */
export function UntilItAnswers({ projectId, plan, fit }: UntilItAnswersProps) {
  const { image = "", provider = "docker-hub", port = null } = fit.settings ?? {};
  const { data: registry, isPlaceholderData } = useQuery(preflightQuery(projectId, { image, port, registry: { provider } }));
  const imageBytes = (!isPlaceholderData && registry?.size_bytes) || null;
  const weightBytes = plan.model?.download_bytes ?? 0;
  const total = (imageBytes ?? 0) + weightBytes;
  return (
    <section className={classes.card} aria-label="Until it answers">
      <header className={classes.panelHead}>
        <h3 className={classes.panelTitle}>Until it answers</h3>
        <strong>{imageBytes ? `${size(total)} to fetch` : `${size(weightBytes)} and the image`}</strong>
      </header>
      {imageBytes ? (
        <div className={classes.phaseBar} aria-hidden>
          <i data-phase="image" style={{ flexGrow: imageBytes / total }} />
          <i data-phase="weights" style={{ flexGrow: weightBytes / total }} />
        </div>
      ) : null}
      <ol className={classes.phases}>
        <li data-phase="image">
          Pull the image <span>{imageBytes ? size(imageBytes) : "size not known"}</span>
        </li>
        <li data-phase="weights">
          Download weights <span>{size(weightBytes)}</span>
        </li>
        <li data-phase="load">Load the model</li>
      </ol>
      <p className={classes.footnote}>
        Not billed. How long it takes depends on the machine and its line; its page shows it as it happens.
      </p>
    </section>
  );
}
