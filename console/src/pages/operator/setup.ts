/** The set-up checklist as it is shown. Pure. */
import { handbook } from "@/addresses/handbook";
import { paths } from "@/addresses/paths";

import type { SetupStep } from "./queries";

interface About {
  label: string;
  /** The handbook's page on how it is set up. */
  learn: string;
  /** The console's page that shows more of it, and what that is called. */
  more?: { to: string; label: string };
}

const ABOUT: Record<string, About> = {
  backup: { label: "Backup", learn: handbook.backup },
  isolation: { label: "Isolation", learn: handbook.whatIsIsolated, more: { to: paths.operator("health"), label: "Health" } },
  mail: { label: "Mail", learn: handbook.mail },
  "sign-in": { label: "Sign-in providers", learn: handbook.signIn },
  payments: { label: "Payments", learn: handbook.payments },
  TLS: { label: "TLS", learn: handbook.tls },
  GPUs: { label: "GPUs", learn: handbook.gpus, more: { to: paths.operator("machines"), label: "Show" } },
  machines: { label: "Machines", learn: handbook.machines, more: { to: paths.operator("machines"), label: "Show" } },
};

/** A step of a newer server than this page is shown by its own name. */
export function about(step: Pick<SetupStep, "name">): About {
  return ABOUT[step.name] ?? { label: step.name, learn: handbook.install };
}

/** "3 missing, 1 not known"; null when all is done. */
export function lacking(steps: Pick<SetupStep, "state">[]): string | null {
  const count = (state: SetupStep["state"]) => steps.filter((one) => one.state === state).length;
  const parts = [
    count("missing") > 0 ? `${count("missing")} missing` : null,
    count("unknown") > 0 ? `${count("unknown")} not known` : null,
  ];
  return parts.filter(Boolean).join(", ") || null;
}
