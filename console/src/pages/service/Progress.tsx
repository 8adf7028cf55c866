import type { Container } from "@/api/queries";
import { isDeploying, STATES } from "@/components/state";
import { useNow } from "@/components/useNow";

import classes from "./ContainerDetail.module.css";
import { progressOf, waitingWords } from "./progress";

/** While it deploys, or waits: what it is doing, how far, and that it costs nothing yet. */
export function Progress({ container }: { container: Container }) {
  const now = useNow();
  if (!isDeploying(container.state)) return null;
  const progress = progressOf(container, now);
  const doing = progress?.doing;
  return (
    <section className={classes.progress} aria-label="Progress">
      <p>
        <span>
          <strong>{STATES[container.state].word}</strong>{" "}
          {doing ? (
            <>
              {doing.words}
              {doing.figures ? <span data-figures>: {doing.figures}</span> : null}
            </>
          ) : (
            (progress?.text ?? container.message ?? "waits for its turn")
          )}
        </span>
        <span data-figures>
          {doing ? `${progress.text} · ` : ""}
          not billed yet
        </span>
      </p>
      {progress?.fraction !== undefined ? (
        <div
          className={classes.bar}
          role="progressbar"
          aria-label={STATES[container.state].word}
          aria-valuenow={Math.round(progress.fraction * 100)}
        >
          <span style={{ width: `${progress.fraction * 100}%` }} />
        </div>
      ) : null}
      {progress?.waiting ? <p className={classes.waiting}>{waitingWords(progress.waiting)}</p> : null}
    </section>
  );
}
