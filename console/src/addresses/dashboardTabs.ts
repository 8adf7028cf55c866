import type { DashboardTab } from "./paths";

/** The tabs of a container's dashboard, in their order; each has its route in router.tsx. */
export const dashboardTabs: { tab: DashboardTab; label: string }[] = [
  { tab: "overview", label: "Overview" },
  { tab: "metrics", label: "Metrics" },
  { tab: "logs", label: "Logs" },
  { tab: "activity", label: "Activity" },
  { tab: "versions", label: "Versions" },
  { tab: "autoscaling", label: "Autoscaling" },
  { tab: "playground", label: "Playground" },
  { tab: "settings", label: "Settings" },
  { tab: "capsules", label: "Crash reports" },
];

/** The tab that an address names, if it is one of a dashboard. */
export function dashboardTab(pathname: string): DashboardTab | undefined {
  // A request is found from the log's lines and leads back to them.
  if (/^\/projects\/[^/]+\/containers\/[^/]+\/requests\/[^/]+$/.test(pathname)) return "logs";
  const name = /^\/projects\/[^/]+\/containers\/[^/]+\/([^/]+)$/.exec(pathname)?.[1];
  return dashboardTabs.find((one) => one.tab === name)?.tab;
}
