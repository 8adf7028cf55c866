/** The audit log as it is read: who did what, in a sentence with names. The record itself is shown below it on demand. */
import type { Schemas } from "@/api/client";

import { Details, type NameOf, type Sentence } from "./auditDetails";
import { OF_CONTAINERS } from "./auditOfContainers";
import { changedKey } from "./auditOfKeys";

export type AuditRecord = Schemas["AuditRecord"];

const nobodys: NameOf = () => undefined;

/** "mara@northwind.example", "API key ci", "Moorage", "The operator". */
export function auditActor({ actor, actor_email, actor_name }: Pick<AuditRecord, "actor" | "actor_email" | "actor_name">, nameOf: NameOf = nobodys): string {
  if (actor_email) return actor_email;
  if (actor_name) return `API key ${actor_name}`;
  if (actor === "system") return "Moorage";
  if (actor === "operator") return "The operator";
  return nameOf(actor) ?? actor;
}

/** "Created the API key my-app in production". Of what a later version records, its name in words. */
export function auditSentence(record: Pick<AuditRecord, "action" | "target" | "details">, nameOf: NameOf = nobodys): string {
  const details = record.details as Record<string, unknown>;
  const target = (otherwise: string) => nameOf(record.target) ?? otherwise;
  const sentence = SENTENCES[record.action];
  if (sentence) return sentence(new Details(details, nameOf), target, record.target);
  const words = record.action.replace(/[._]/g, " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** By its id where an earlier version recorded no name: one of several must not be "a machine". */
const machine = (said: (name: string, of: Details) => string): Sentence => {
  return (of, target, id) => said(of.text("name") || target(id), of);
};

/** A project's limit, or the organization's. */
const limitOf = (target: (otherwise: string) => string, id: string) => target(id.startsWith("org_") ? "the organization" : id);

const SENTENCES: Record<string, Sentence | undefined> = {
  ...OF_CONTAINERS,

  "organization.create": (of) => `Created the organization ${of.text("name")}`,
  "organization.rename": (of) => `Renamed the organization from ${of.text("name_before")} to ${of.text("name")}`,
  "organization.remove": (of) => `Deleted the organization ${of.text("name")}`,
  "organization.suspend": (of) => `Suspended the organization${of.because()}`,
  "organization.resume": () => "Ended the suspension of the organization",
  "project.create": (of) => `Created the project ${of.text("name")}`,
  "project.rename": (of) => `Renamed the project from ${of.text("name_before")} to ${of.text("name")}`,
  "project.remove": (of) => `Deleted the project ${of.text("name")}`,

  "api_key.create": (of) => `Created the API key ${of.text("name")}${of.inProject()}${of.text("scope") === "manage" ? ", which may manage containers" : ""}`,
  "api_key.change": changedKey,
  "api_key.rotate": (of) => `Rotated the API key ${of.text("name")}${of.inProject()}`,
  "api_key.revoke": (of) => `Revoked the API key ${of.text("name")}${of.inProject()}`,

  "invitation.create": (of) => `Invited ${of.text("email")} as ${of.role()}${of.inProject("to")}`,
  "invitation.resend": (of) => `Sent the invitation to ${of.text("email")} again`,
  "invitation.withdraw": (of) => `Withdrew the invitation to ${of.text("email")}`,
  "invitation.accept": (of) => `${of.text("email") || "Somebody"} accepted the invitation`,
  "member.change": (of, target, id) => changedMember(of, target(id)),
  "member.leave": (of) => `${of.text("email")} left`,
  "member.remove": (of) => `Removed ${of.text("email")}`,

  "webhook.create": (of) => `Added the webhook ${of.text("url")}`,
  "webhook.edit": (of) => `Changed the webhook ${of.text("url")}`,
  "webhook.remove": (of) => `Removed the webhook ${of.text("url")}`,
  "webhook.try": (of) => `Sent a test to the webhook ${of.text("url")}`,
  "webhook.disable": (of, target, id) => `Switched the webhook ${of.text("url") || target(id)} off${of.because()}`,

  "billing.top_up": (of) =>
    of.text("method") === "bank_transfer"
      ? `Announced a bank transfer of ${of.amount("amount")}`
      : `${of.is("automatic") ? "Began an automatic top-up" : of.is("recovered") ? "Found a top-up" : "Began a top-up"} of ${of.amount("amount")} by card`,
  "billing.top_up_failed": (of) => `An automatic top-up of ${of.amount("amount")} failed${of.because("code").replaceAll("_", " ")}`,
  "billing.transfer_confirm": (of) => `Confirmed that ${of.amount("received")} arrived by bank transfer`,
  "billing.transfer_expire": (of) => `Noted that a bank transfer of ${of.amount("amount")} did not arrive`,
  "billing.credit": (of) => `Gave ${of.amount("amount")} of credit${of.because()}`,
  "billing.initial_credit": (of) => `Gave ${of.amount("amount")} of credit to begin with`,
  "billing.spending_limit": (of, target, id) =>
    of.has("limit_microusd")
      ? `Set the monthly limit of ${limitOf(target, id)} to ${of.amount("limit")}`
      : `Removed the monthly limit of ${limitOf(target, id)}`,
  "billing.spending_alert": (of, target, id) =>
    `${of.text("percent")} % of the monthly limit of ${limitOf(target, id)} was spent: ${of.amount("spent")} of ${of.amount("limit")}`,
  "billing.low_credit": (of) =>
    `Warned that the credit ends within ${of.text("hours") === "1" ? "an hour" : `${of.text("hours")} hours`}: ${of.amount("available")} was left`,
  "billing.auto_top_up": (of) =>
    `Set automatic top-up to ${of.amount("amount")} below ${of.amount("threshold")}, at most ${of.amount("monthly_cap")} a month`,
  "billing.auto_top_up_off": () => "Switched automatic top-up off",
  "billing.card_save": () => "Began to save a card",
  "billing.card_remove": () => "Removed the saved card",
  "billing.details": (of) => `Changed the details on invoices${of.list("fields").length > 0 ? `: ${of.list("fields").join(", ").replaceAll("_", " ")}` : ""}`,
  "billing.payout_account": (of) => `Changed the bank account for payouts to the one that ends in ${of.text("account")}`,
  "billing.payout": (of) => `Asked for a payout of ${of.amount("amount")} to the account that ends in ${of.text("account")}`,
  "billing.payout_confirm": (of) => `Sent a payout of ${of.amount("amount")}${of.has("reference") ? `, reference ${of.text("reference")}` : ""}`,
  "billing.payout_refuse": (of) => `Refused a payout of ${of.amount("amount")}${of.because()}`,

  "machine.add": machine((name) => `Made the command that adds ${name}`),
  "machine.new_command": machine((name) => `Made a new command for ${name}`),
  "machine.join": machine((name) => `${name} joined`),
  "machine.renew_key": machine((name) => `${name} renewed its key`),
  "machine.answered": machine((name) => `${name} answers again`),
  "machine.silent": machine((name) => `${name} stopped answering`),
  "machine.pause": machine((name) => `Paused ${name}`),
  "machine.resume": machine((name) => `Resumed ${name}`),
  "machine.drain": machine((name) => `Began to drain ${name}`),
  "machine.remove": machine((name) => `Removed ${name}`),
  "machine.leave": machine((name) => `${name} left`),
  "machine.verified": machine((name) => `${name} proved what it has`),
  "machine.promoted": machine((name) => `${name} ended its probation`),
  "machine.demoted": machine((name) => `${name} is on probation again`),
  "machine.distrusted": machine((name, of) => `Paused ${name}${of.because("because")}`),
  "machine.reclaim": machine((name) => `Took ${name} back`),
  "machine.ban": machine((name, of) => `Banned ${name}${of.because("because")}`),
  "machine.unban": machine((name) => `Lifted the ban on ${name}`),
  "machine.void_earnings": machine((name, of) => `Took back what was held of the earnings of ${name}${of.because()}`),

  "instance_type.create": (of, _, id) => `Added the instance type ${id} for ${of.amount("price_per_hour")}/h`,
  "instance_type.change": (_, __, id) => `Changed the instance type ${id}`,
  "instance_type.delete": (_, __, id) => `Deleted the instance type ${id}`,
  "node.intake": (of, _, id) =>
    ({ open: `Let ${id} take replicas again`, cordoned: `Paused ${id}`, draining: `Began to drain ${id}` })[of.text("intake")] ??
    `Changed what ${id} takes`,
  "node.replicas_gone": (_, __, id) => `Said that the replicas on ${id} are gone`,
  "gateway.forget": (_, __, id) => `Forgot the gateway ${id}`,
  "user.sign_out": (_, target, id) => `Signed ${target(id)} out everywhere`,
};

/** An earlier version also recorded what changed nothing: that took no project from anybody. */
function changedMember(of: Details, member: string): string {
  if (of.text("role") !== of.text("role_before")) return `Made ${member} ${of.role()}`;
  if (of.has("project_ids")) return `Changed the projects of ${member} to ${of.names("project_ids") || "none"}`;
  return `Left the role of ${member} as it was`;
}
