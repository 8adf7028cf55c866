import { useSuspenseQuery } from "@tanstack/react-query";
import { ArrowLeft } from "lucide-react";

import { dashboardTabs } from "@/addresses/dashboardTabs";
import { type DashboardTab, paths } from "@/addresses/paths";
import { containerQuery } from "@/api/queries";
import { LinkTo } from "@/components/LinkTo";
import { lookOf } from "@/components/state";
import { StateBadge } from "@/components/StateBadge";
import { ContainerActions } from "@/containers/ContainerActions";

import classes from "./Frame.module.css";
import { TabRow } from "./TabRow";

/** Inside a container its tabs stand where the sections were, and its state and actions at the right. */
export function DashboardTabs({ containerId, current }: { containerId: string; current: DashboardTab }) {
  const { data: container } = useSuspenseQuery(containerQuery(containerId));
  return (
    <div className={classes.tabBar}>
      <LinkTo
        to={paths.container(container.project_id, container.id)}
        className={classes.backArrow}
        aria-label="Back to the list"
      >
        <ArrowLeft size={16} strokeWidth={1.5} />
      </LinkTo>
      <TabRow
        label="Dashboard"
        tabs={dashboardTabs.map(({ tab, label }) => ({
          to: paths.dashboard(container.project_id, container.id, tab),
          label,
          active: tab === current,
          note: tab === "settings" && container.draft?.saved_at ? "staged" : undefined,
        }))}
      />
      <div className={classes.tabsRight}>
        <span role="status" aria-live="polite" className={classes.tabState}>
          <StateBadge state={lookOf(container)} bare />
          <span className={classes.readyCount}>
            {container.asleep
              ? container.woken_at
                ? "wakes now"
                : "wakes on a request"
              : container.state === "STOPPED"
                ? null
                : `${container.replicas.ready} of ${container.replicas.desired} ready`}
          </span>
        </span>
        <ContainerActions container={container} size="xs" />
      </div>
    </div>
  );
}
