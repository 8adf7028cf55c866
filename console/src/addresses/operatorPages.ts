import type { OperatorPage } from "./paths";

/** The tabs of the operator's area, in their order. A page appears here together with its route in operatorRoutes.tsx. */
export const operatorPages: { page: OperatorPage; label: string }[] = [
  { page: "home", label: "Home" },
  { page: "health", label: "Health" },
  { page: "organizations", label: "Organizations" },
  { page: "users", label: "Users" },
  { page: "transfers", label: "Bank transfers" },
  { page: "payouts", label: "Payouts" },
  { page: "requests", label: "Replica limits" },
  { page: "machines", label: "Machines" },
  { page: "instance-types", label: "Instance types" },
  { page: "revenue", label: "Revenue" },
  { page: "audit", label: "Audit" },
  { page: "outbox", label: "Outbox" },
];
