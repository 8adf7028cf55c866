/** Every address of the console is made here. */
export const paths = {
  home: () => "/",
  signIn: (next?: string) => (next && next !== "/" ? `/login?next=${encodeURIComponent(next)}` : "/login"),
  /** An organization that has no project yet, or none for the reader. */
  organization: (organizationId: string) => `/organizations/${organizationId}`,
  /** Where such a one gets its first credit. */
  organizationBilling: (organizationId: string) => `/organizations/${organizationId}/billing`,
  service: (projectId: string) => `/projects/${projectId}/containers`,
  container: (projectId: string, containerId: string) => `/projects/${projectId}/containers/${containerId}`,
  /** A container that was just deployed to be tried: its page leads on to the playground as soon as it answers. */
  tried: (projectId: string, containerId: string) => `/projects/${projectId}/containers/${containerId}?then=playground`,
  create: (projectId: string, from: CreateSearch = {}) =>
    `/projects/${projectId}/create` + (Object.keys(from).length > 0 ? `?${new URLSearchParams({ ...from })}` : ""),
  /** A page of a container's dashboard. */
  dashboard: (projectId: string, containerId: string, tab: DashboardTab = "overview") =>
    `/projects/${projectId}/containers/${containerId}/${tab}`,
  /** A request's receipt, whoever's it is: what is handed around. It leads on to the one below. */
  request: (requestId: string) => `/requests/${encodeURIComponent(requestId)}`,
  /** The same among its container's pages, or where that is gone, its project's. */
  receipt: (projectId: string, containerId: string | null, requestId: string) =>
    `/projects/${projectId}${containerId ? `/containers/${containerId}` : ""}/requests/${encodeURIComponent(requestId)}`,
  /** A container's log around a moment, of one of its instances. */
  logsAround: (projectId: string, containerId: string, around: { instance: string; until: string }) =>
    `/projects/${projectId}/containers/${containerId}/logs?${new URLSearchParams(around)}`,
  /** A section beside Service: its path is its name. */
  section: (projectId: string, section: Section) => `/projects/${projectId}/${section}`,
  /** What the link in an invitation opens. */
  invitation: (token: string) => `/invitations/${encodeURIComponent(token)}`,
  /** Oneself: sessions and linked accounts. */
  account: () => "/account",
  /** A page of the operator's area. */
  operator: (page: OperatorPage = "home") => `/operator/${page}`,
  /** An organization as the operator sees it. */
  operatorOrganization: (organizationId: string) => `/operator/organizations/${organizationId}`,
};

/** What a new container begins with, and where in its form somebody is. */
export interface CreateSearch {
  copy?: string;
  model?: string;
  template?: string;
  step?: string;
}

export type DashboardTab =
  | "overview"
  | "metrics"
  | "logs"
  | "activity"
  | "versions"
  | "autoscaling"
  | "playground"
  | "settings"
  | "capsules";

export type Section = "containers" | "api-keys" | "members" | "billing" | "machines" | "audit" | "webhooks";

export type OperatorPage =
  | "home"
  | "health"
  | "organizations"
  | "users"
  | "transfers"
  | "payouts"
  | "requests"
  | "machines"
  | "instance-types"
  | "revenue"
  | "audit"
  | "outbox";
