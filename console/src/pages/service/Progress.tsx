import type { Container } from "@/api/queries";
import { isDeploying, STATES } from "@/components/state";
import { useNow } from "@/components/useNow";

import classes from "./ContainerDetail.module.css";
import { progressOf } from "./progress";

/** While it deploys, or waits: what it is doing, how far, and that it costs nothing yet. */
export function Progress({ container }: { container: Container }) {
  const now = useNow();
  if (!isDeploying(container.state)) return null;
  const progress = progressOf(container, now);
  return (
    <section className={classes.progress} aria-label="Progress">
      <p>
        <span>
          <strong>{STATES[container.state].word}</strong> {progress?.text ?? container.message ?? "waits for its turn"}
        </span>
        <span>not billed yet</span>
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
    </section>
  );
}
