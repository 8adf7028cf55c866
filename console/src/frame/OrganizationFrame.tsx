import { Shell } from "./Frame";
import { PlainTopBar } from "./PlainTopBar";

/** For what an organization without a project needs. */
export function OrganizationFrame() {
  return <Shell top={<PlainTopBar title="Billing" />} />;
}
