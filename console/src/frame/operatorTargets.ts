/** What the operator's search found, as the palette shows it. */
import { paths } from "@/addresses/paths";
import type { Schemas } from "@/api/client";

import type { Target } from "./found";

type Found = Schemas["Found"];

const SHORTEST = 2;
const KINDS: Record<Found["kind"], string> = {
  organization: "Organization",
  user: "Person",
  container: "Container",
  machine: "Machine",
  request: "Request",
};

/** One letter would find everything. */
export function isSearched(text: string): boolean {
  return text.length >= SHORTEST;
}

/** Leads to the page of whose it is; the machines have a page of their own. */
export function targetOf(one: Found): Target {
  const kind = KINDS[one.kind];
  const owner = one.kind === "organization" ? null : one.organization_name;
  return { label: one.name, kind: owner ? `${kind} of ${owner}` : kind, open: { to: placeOf(one) } };
}

function placeOf(one: Found): string {
  if (one.kind === "machine") return paths.operator("machines");
  if (one.organization_id) return paths.operatorOrganization(one.organization_id);
  return paths.operator("users");
}
