import type { Section } from "./paths";

/** The tabs of the second bar, in their order. A page appears here together with its route in router.tsx. */
export const sections: { section: Section; label: string; adminOnly?: boolean }[] = [
  { section: "containers", label: "Service" },
  { section: "api-keys", label: "API keys" },
  { section: "members", label: "Members", adminOnly: true },
  { section: "billing", label: "Billing" },
  { section: "audit", label: "Audit", adminOnly: true },
  { section: "webhooks", label: "Webhooks", adminOnly: true },
];
