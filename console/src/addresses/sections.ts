import type { Section } from "./paths";

/** The tabs of the second bar, in their order. A page appears here together with its route in router.tsx. */
export const sections: { section: Section; label: string; adminOnly?: boolean; lendersOnly?: boolean }[] = [
  { section: "containers", label: "Service" },
  { section: "api-keys", label: "API keys" },
  { section: "members", label: "Members", adminOnly: true },
  { section: "billing", label: "Billing" },
  { section: "machines", label: "Machines", lendersOnly: true },
  { section: "audit", label: "Audit", adminOnly: true },
  { section: "webhooks", label: "Webhooks", adminOnly: true },
];

/** Those that somebody has a use for: admins, and `lends` where machines can be lent to this installation. */
export function sectionsFor(isAdmin: boolean, lends: boolean) {
  return sections.filter((one) => (isAdmin || !one.adminOnly) && (lends || !one.lendersOnly));
}
