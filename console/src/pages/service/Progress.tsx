import type { Container } from "@/api/queries";
import { isDeploying, STATES } from "@/components/state";
import { useNow } from "@/components/useNow";

import classes from "./ContainerDetail.module.css";
import { progressOf, waitingWords } from "./progress";

/** While it deploys, or waits: what it is doing, how far, and that it costs nothing yet. While it runs: the same of a replica that
 * comes beside those that serve, or takes over from one. */
export function Progress({ container }: { container: Container }) {
  const now = useNow();
  if (!isDeploying(container.state) && !(container.state === "RUNNING" && container.progress)) return null;
  const who = container.state === "RUNNING" ? nextReplica(container) : STATES[container.state].word;
  const progress = progressOf(container, now);
  const doing = progress?.doing;
  return (
    <section className={classes.progress} aria-label="Progress">
      <p>
        <span>
          <strong>{who}:</strong>{" "}
          {doing ? (
            <>
              {doing.words}
              {doing.figures ? <span data-figures>, {doing.figures}</span> : null}
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
          aria-label={who}
          aria-valuenow={Math.round(progress.fraction * 100)}
        >
          <span style={{ width: `${progress.fraction * 100}%` }} />
        </div>
      ) : null}
      {progress?.soonUp ? (
        <p className={classes.soonUp} data-figures>
          {progress.soonUp}
        </p>
      ) : null}
      {progress?.waiting ? <p className={classes.waiting}>{waitingWords(progress.waiting)}</p> : null}
    </section>
  );
}

function nextReplica(container: Container): string {
  return container.replicas.ready > 0 ? "Another replica" : "A replica";
}
