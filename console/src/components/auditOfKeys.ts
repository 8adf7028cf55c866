/** What was changed of an API key, as a sentence of the audit log. */
import type { Details } from "./auditDetails";

/** "Renamed the API key old to new in production, disabled it, and changed its expiry". */
export function changedKey(of: Details): string {
  const key = `the API key ${of.text("name")}${of.inProject()}`;
  const limits = [...(of.records("requests_per_minute") ? ["rate limit"] : []), ...(of.records("expires_at") ? ["expiry"] : [])];
  const isRenamed = of.records("name_before");
  // An earlier version recorded all that was sent, also what stayed as it was, and no earlier name.
  if (!isRenamed && of.records("disabled") && limits.length === 2) return `Changed ${key}`;

  const parts = isRenamed ? [`Renamed the API key ${of.text("name_before")} to ${of.text("name")}${of.inProject()}`] : [];
  const add = (first: string, next: string) => parts.push(parts.length === 0 ? first : next);
  const limitsWith = (word: string) => limits.map((one) => `${word} ${one}`).join(" and ");
  if (of.records("disabled") && of.is("disabled")) add(`Disabled ${key}`, "disabled it");
  if (of.records("disabled") && !of.is("disabled")) add(`Enabled ${key}`, "enabled it");
  if (limits.length > 0) add(`Changed ${limitsWith("the")} of ${key}`, `changed ${limitsWith("its")}`);
  const last = parts.pop() ?? `Changed ${key}`;
  return parts.length === 0 ? last : `${parts.join(", ")}, and ${last}`;
}
