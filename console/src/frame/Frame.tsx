import { Outlet, useLocation, useParams } from "@tanstack/react-router";
import { type ReactNode, Suspense, useEffect } from "react";

import { dashboardTab } from "@/addresses/dashboardTabs";
import { useProjectEvents } from "@/api/live";
import { Waiting } from "@/components/Patterns";

import { DashboardTabs } from "./DashboardTabs";
import classes from "./Frame.module.css";
import { rememberProject } from "./lastProject";
import { TopBar } from "./TopBar";
import { Tabs } from "./Tabs";

export function Frame() {
  const { projectId, containerId } = useParams({ strict: false }) as { projectId: string; containerId?: string };
  const tab = dashboardTab(useLocation().pathname);
  useEffect(() => rememberProject(projectId), [projectId]);
  useProjectEvents(projectId);
  return (
    <Shell top={<TopBar />}>
      {containerId && tab ? <DashboardTabs containerId={containerId} current={tab} /> : <Tabs />}
    </Shell>
  );
}

/** Two bars, never a third, and the page below them. */
export function Shell({ top, children }: { top: ReactNode; children?: ReactNode }) {
  return (
    <Suspense fallback={<Waiting rows={2} height={32} />}>
      <div className={classes.frame}>
        <a href="#page" className={classes.skip}>
          Skip to the page
        </a>
        <header className={classes.bars}>
          {top}
          {children}
        </header>
        <div id="page" className={classes.page} tabIndex={-1}>
          <Suspense fallback={<Waiting />}>
            <Outlet />
          </Suspense>
        </div>
      </div>
    </Suspense>
  );
}
