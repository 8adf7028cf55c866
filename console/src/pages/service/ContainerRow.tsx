import { paths } from "@/addresses/paths";
import type { Container } from "@/api/queries";
import { LinkTo } from "@/components/LinkTo";
import { dollars } from "@/components/Money";
import { isDeploying, lookOf, STATES } from "@/components/state";
import { StateIcon } from "@/components/StateIcon";
import { useNow } from "@/components/useNow";

import { progressOf } from "./progress";
import classes from "./Service.module.css";

export const ROW_HEIGHT = 62;

export function ContainerRow({ container, selected }: { container: Container; selected: boolean }) {
  const now = useNow();
  const progress = isDeploying(container.state) ? progressOf(container, now) : null;
  const { word, tone } = STATES[lookOf(container)];
  const { ready, desired } = container.replicas;
  return (
    <LinkTo
      to={paths.container(container.project_id, container.id)}
      className={classes.row}
      data-selected={selected || undefined}
      aria-current={selected ? "true" : undefined}
    >
      <span className={classes.rowIcon}>
        <StateIcon state={lookOf(container)} />
      </span>
      <span className={classes.rowName}>{container.name}</span>
      <span className={classes.rowCount} data-figures>{container.state === "STOPPED" || container.asleep ? "–" : `${ready}/${desired}`}</span>
      <span className={classes.rowState}>
        <span data-tone={tone} className={classes.rowWord}>
          {word}
        </span>
        {` · ${progress?.doing?.words ?? progress?.text ?? detail(container)}`}
      </span>
      <span className={classes.rowPrice} data-figures>{price(container)}</span>
      {progress?.fraction !== undefined ? (
        <span className={classes.rowBar} role="presentation">
          <span style={{ width: `${Math.round(progress.fraction * 100)}%` }} />
        </span>
      ) : null}
    </LinkTo>
  );
}

function detail(container: Container): string {
  if (container.asleep) return container.woken_at ? "wakes now" : "wakes on a request";
  if (container.state === "RUNNING") return container.resources.instance_type;
  if (container.state === "STOPPED" && container.reason === "stopped_by_user") return "by hand";
  const words = (container.reason ?? "").replaceAll("_", " ");
  return words || container.resources.instance_type;
}

function price(container: Container): string {
  if (container.state === "STOPPED" || container.state === "DELETING") return "";
  if (container.asleep || isDeploying(container.state) || container.state === "FAILED") return "not billed";
  return `${dollars(container.price_per_hour_microusd * Math.max(container.replicas.ready, 1))}/h`;
}
