/** What people and keys did to containers, as sentences of the audit log. Their names are in the record: they may be gone. */
import type { Details, Sentence } from "./auditDetails";
import { fieldName, fieldNames, lowerFirst } from "./fieldNames";

/** "chat in production". Of an earlier version's record about a container that is gone, only that it was one. */
const container = (said: (it: string, of: Details) => string): Sentence => {
  return (of, target) => said(`${of.text("name") || target("a container")}${of.inProject()}`, of);
};

/** About a container, or about all of a project's. */
const replicas = (said: (many: string, of: Details) => string): Sentence => {
  return (of) => said(`${counted(of.text("replicas"))}${of.has("name") ? ` of ${of.text("name")}` : ""}${of.inProject()}`, of);
};

export const OF_CONTAINERS: Record<string, Sentence | undefined> = {
  "container.create": container((it) => `Created ${it}`),
  "container.edit": container(edited),
  "container.fix": container((it, of) => `Applied the fix for ${it}${fix(of)}`),
  "container.start": container((it) => `Started ${it}`),
  "container.stop": container((it) => `Stopped ${it}`),
  "container.restart": container((it, of) => `Restarted ${it}${of.list("avoided_nodes").length > 0 ? " on other machines" : ""}`),
  "container.scale": container(scaled),
  "container.delete": container((it) => `Deleted ${it}`),
  "container.draft_save": container((it, of) => `Staged changes to ${it}${fields(of)}`),
  "container.draft_discard": container((it) => `Discarded the staged changes to ${it}`),
  "container.draft_apply": container(
    (it, of) => `Applied the staged changes to ${it}${of.has("share") ? `, to ${of.text("share")} % of the requests first` : ""}${fields(of)}`,
  ),
  "container.rollback": container((it, of) => `Rolled ${it} back to version ${of.text("version")}`),
  "container.canary": container((it, of) => `Gave the canary of ${it} ${of.text("share")} % of the requests`),
  "container.canary_promote": container((it) => `Promoted the canary of ${it}`),
  "container.canary_abort": container((it) => `Aborted the canary of ${it}`),
  "container.wake": container((it) => `Woke ${it}`),
  "container.doctor": container((it) => `Tested the network of ${it}`),
  "container.accept_exposure": container((it) => `Accepted that the owner of its machine can read what runs in ${it}`),
  "cache.delete": container((it, of) => `Deleted the cache of ${it} on ${of.text("node")}`),
  "replica_limit.requested": replicas((many) => `Asked for ${many}`),
  "replica_limit.approved": replicas((many, of) => `Allowed ${many}${of.because("message")}`),
  "replica_limit.refused": replicas((many, of) => `Refused ${many}${of.because("message")}`),
  "replica_limit.withdrawn": replicas((many) => `Withdrew the request for ${many}`),
};

/** "Renamed chat to talk in production, and changed its image". */
function edited(it: string, of: Details): string {
  if (!of.has("name_before")) return `Changed the settings of ${it}${fields(of)}`;
  const others = fields(of, ["name"]);
  return `Renamed ${of.text("name_before")} to ${it}${others ? `, and changed its settings${others}` : ""}`;
}

function scaled(it: string, of: Details): string {
  const [least, most] = [of.text("min_replicas"), of.text("max_replicas")];
  if (least && most && least !== most) return `Scaled ${it} to between ${least} and ${most} replicas`;
  if (least && most) return `Scaled ${it} to ${counted(most)}`;
  if (least) return `Scaled ${it} to at least ${counted(least)}`;
  if (most) return `Scaled ${it} to at most ${counted(most)}`;
  return `Changed how ${it} scales`;
}

/** "1 replica", "4 replicas". */
function counted(replicas: string): string {
  return `${replicas} ${replicas === "1" ? "replica" : "replicas"}`;
}

/** ": image, start command", or nothing. */
function fields(of: Details, leaveOut: string[] = []): string {
  const changed = of.list("fields").filter((field) => !leaveOut.includes(field));
  return changed.length > 0 ? `: ${lowerFirst(fieldNames(changed))}` : "";
}

function fix(of: Details): string {
  return of.has("field") ? `: ${lowerFirst(fieldName(of.text("field")))}, ${of.text("from")} → ${of.text("to")}` : "";
}
