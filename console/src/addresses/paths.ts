/** Every address of the console is made here. */
export const paths = {
  home: () => "/",
  signIn: (next?: string) => (next && next !== "/" ? `/login?next=${encodeURIComponent(next)}` : "/login"),
  /** An organization that has no project yet, or none for the reader. */
  organization: (organizationId: string) => `/organizations/${organizationId}`,
  service: (projectId: string) => `/projects/${projectId}/containers`,
  container: (projectId: string, containerId: string) => `/projects/${projectId}/containers/${containerId}`,
  create: (projectId: string, copyOf?: string) =>
    `/projects/${projectId}/create` + (copyOf ? `?copy=${encodeURIComponent(copyOf)}` : ""),
  /** A page of a container's dashboard. */
  dashboard: (projectId: string, containerId: string, tab: DashboardTab = "overview") =>
    `/projects/${projectId}/containers/${containerId}/${tab}`,
  /** A section beside Service: its path is its name. */
  section: (projectId: string, section: Section) => `/projects/${projectId}/${section}`,
  /** What the link in an invitation opens. */
  invitation: (token: string) => `/invitations/${encodeURIComponent(token)}`,
  /** Oneself: sessions and linked accounts. */
  account: () => "/account",
  /** A page of the operator's area. */
  operator: (page: OperatorPage = "health") => `/operator/${page}`,
};

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

export type Section = "containers" | "api-keys" | "members" | "billing" | "audit" | "webhooks";

export type OperatorPage =
  | "health"
  | "organizations"
  | "users"
  | "transfers"
  | "requests"
  | "machines"
  | "instance-types"
  | "revenue"
  | "outbox";
