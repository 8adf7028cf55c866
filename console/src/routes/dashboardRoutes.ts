/** The pages of a container's dashboard, which are not inside the Service tab's two columns. */
import { type AnyRoute, createRoute, lazyRouteComponent } from "@tanstack/react-router";

import type { DashboardTab } from "@/addresses/paths";

const PAGES: Record<DashboardTab, ReturnType<typeof lazyRouteComponent>> = {
  overview: lazyRouteComponent(() => import("@/pages/overview/Overview"), "Overview"),
  metrics: lazyRouteComponent(() => import("@/pages/metrics/Metrics"), "Metrics"),
  logs: lazyRouteComponent(() => import("@/pages/logs/Logs"), "Logs"),
  activity: lazyRouteComponent(() => import("@/pages/activity/Activity"), "Activity"),
  versions: lazyRouteComponent(() => import("@/pages/versions/Versions"), "Versions"),
  autoscaling: lazyRouteComponent(() => import("@/pages/autoscaling/Autoscaling"), "Autoscaling"),
  playground: lazyRouteComponent(() => import("@/pages/playground/Playground"), "Playground"),
  settings: lazyRouteComponent(() => import("@/pages/settings/Settings"), "Settings"),
  capsules: lazyRouteComponent(() => import("@/pages/capsules/Capsules"), "Capsules"),
};

export function dashboardRoutes(getParentRoute: () => AnyRoute) {
  return Object.entries(PAGES).map(([tab, component]) =>
    createRoute({ getParentRoute, path: `/containers/$containerId/${tab}`, component }),
  );
}
