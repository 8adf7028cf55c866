import { fieldNames } from "@/components/fieldNames";
import { STATES, type State } from "@/components/state";

import type { Activity } from "./queries";

const KINDS: Record<string, string> = {
  "container.create": "Created",
  "container.edit": "Settings changed",
  "container.fix": "Fix applied",
  "container.start": "Start asked for",
  "container.restart": "Restart asked for",
  "container.restart_failed": "Restart given up",
  "container.stop": "Stop asked for",
  "container.delete": "Delete asked for",
  "container.draft_save": "Changes staged",
  "container.draft_discard": "Staged changes discarded",
  "container.draft_apply": "Applying staged changes",
  "container.draft_applied": "Staged changes applied",
  "container.draft_failed": "Staged changes taken back",
  "container.scale": "Replicas changed",
  "container.rollback": "Rollback asked for",
  "container.sleep": "Fell asleep",
  "container.wake": "Woken",
  "container.awake": "Awake",
  "container.canary": "Canary changed",
  "container.canary_promote": "Promotion of the canary asked for",
  "container.canary_promoted": "Canary promoted",
  "container.canary_abort": "Abort of the canary asked for",
  "cache.delete": "Deletion of a cache asked for",
  "cache.evict": "Cache removed",
  "cache.trim": "Cache made smaller",
};

/** An activity as a person would say it: what happened, then why or by how much. */
export function sentenceFor(activity: Activity): { what: string; detail: string; tone?: string } {
  const details = activity.details as Record<string, unknown>;
  if (activity.kind === "container.state") {
    const state = STATES[details["to"] as State];
    return { what: state?.word ?? String(details["to"]), detail: activity.message ?? "", tone: state?.tone };
  }
  if (activity.kind === "container.autoscale") {
    return { what: `Scaled ${String(details["from"])} → ${String(details["to"])}`, detail: activity.message ?? "" };
  }
  const what = KINDS[activity.kind] ?? activity.kind.replace(/^container\./, "").replaceAll("_", " ");
  return { what, detail: activity.message ?? summary(details) };
}

function summary(details: Record<string, unknown>): string {
  if (Array.isArray(details["fields"])) return fieldNames(details["fields"].map(String));
  if (typeof details["image"] === "string") return details["image"];
  if (typeof details["node"] === "string") return `on ${details["node"]}`;
  if (typeof details["generation"] === "number") return `generation ${details["generation"]}`;
  return "";
}
