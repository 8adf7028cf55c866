/** What the browser's tab is called. */
import { dashboardTabs } from "./dashboardTabs";
import { operatorPages } from "./operatorPages";
import { sections } from "./sections";

export interface PageName {
  /** The page by itself: "Logs". */
  page: string | null;
  projectId: string | null;
  containerId: string | null;
}

const ALONE: Record<string, string> = {
  login: "Sign in",
  organizations: "Organization",
  billing: "Billing",
  invitations: "Invitation",
  account: "Account",
  requests: "Request",
};

/** What an address is of; the names of its project and container are looked up by whoever shows them. */
export function pageName(pathname: string): PageName {
  const [area = "", id = "", section = "", containerId = "", tab = ""] = pathname.split("/").slice(1);
  if (area === "operator") {
    const label = operatorPages.find((one) => one.page === id)?.label;
    return { page: label ? `${label} · Operator` : "Operator", projectId: null, containerId: null };
  }
  if (area === "organizations" && section) return { page: "Billing", projectId: null, containerId: null };
  if (area !== "projects") return { page: ALONE[area] ?? null, projectId: null, containerId: null };
  if (section === "create") return { page: "Create container", projectId: id, containerId: null };
  if (section === "requests") return { page: "Request", projectId: id, containerId: null };
  if (section === "containers" && containerId) {
    const label = tab === "requests" ? "Request" : dashboardTabs.find((one) => one.tab === tab)?.label;
    return { page: label ?? null, projectId: id, containerId };
  }
  return { page: sections.find((one) => one.section === section)?.label ?? null, projectId: id, containerId: null };
}

/** "Logs · llama-3.1-8b-chat · production · Moorage" */
export function titleOf(...parts: (string | null | undefined)[]): string {
  return [...parts.filter(Boolean), "Moorage"].join(" · ");
}
