import { paths } from "@/addresses/paths";
import type { Schemas } from "@/api/client";

export type Notification = Schemas["Notification"];

const MOST_COUNTED = 9;

/** Beside the bell: nothing, "3", "9+". */
export function counted(unread: number): string {
  return unread > MOST_COUNTED ? `${MOST_COUNTED}+` : unread > 0 ? String(unread) : "";
}

/** As it is heard: "Notifications, 3 unread". */
export function heard(unread: number): string {
  return unread > 0 ? `Notifications, ${counted(unread)} unread` : "Notifications";
}

/** The page of what it is about, or null where that is gone. `projectId`: where the reader is, for what belongs to no project. */
export function addressOf(one: Pick<Notification, "event" | "project_id" | "container_id">, projectId: string): string | null {
  if (one.project_id && one.container_id) return paths.container(one.project_id, one.container_id);
  const [area, what = ""] = one.event.split(".");
  switch (area) {
    case "replica_limit":
      return one.project_id ? paths.service(one.project_id) : null;
    case "billing":
      // What is earned is paid out on the page of the machines that earned it.
      return paths.section(projectId, what.startsWith("payout") ? "machines" : "billing");
    case "machine":
      return paths.section(projectId, "machines");
    case "invitation":
    case "member":
      return paths.section(projectId, "members");
    case "webhook":
      return paths.section(projectId, "webhooks");
    default:
      return null;
  }
}
