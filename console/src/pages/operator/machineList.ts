/** What the operator's list of machines says of each. Pure. */
import { shortTime } from "@/components/times";

import type { Machine, Node } from "./queries";

const LOCAL_ENGINE = "local";

/** One machine: the installation's own, or one that joined. It is known as either, or as both. */
export interface Listed {
  key: string;
  name: string;
  /** Null until its engine has described it. */
  node: Node | null;
  /** Null: Moorage itself runs there. */
  machine: Machine | null;
}

/** The installation's own first, then those that joined by name, then those that may still join. A joined one's engine has its id. */
export function listed(nodes: Node[], machines: Machine[]): Listed[] {
  const own = nodes
    .filter((node) => node.engine === LOCAL_ENGINE)
    .map((node) => ({ key: node.name, name: node.name, node, machine: null }));
  const joined = machines.map((machine) => ({
    key: machine.id,
    name: nameOf(machine),
    node: nodes.find((node) => node.engine === machine.id) ?? null,
    machine,
  }));
  const order = (one: Listed) => (one.machine?.state === "joining" ? 1 : 0);
  joined.sort((one, other) => order(one) - order(other) || one.name.localeCompare(other.name, "en", { numeric: true }));
  return [...own, ...joined];
}

/** One that was added without a name has its host's once it joins. */
export function nameOf(machine: Machine): string {
  return machine.name ?? "Not named yet";
}

export type Look = "active" | "paused" | "draining" | "joining" | "lost" | "attention";

export interface Condition {
  look: Look;
  word: string;
  since: string | null;
  sentence: string;
}

export function conditionOf({ node, machine }: Listed, now: Date): Condition {
  if (machine) return joinedCondition(machine, node, now);
  return node ? ownCondition(node) : { look: "attention", word: "Unknown", since: null, sentence: "" };
}

function joinedCondition(machine: Machine, node: Node | null, now: Date): Condition {
  const since = machine.state_since;
  const said = machine.message ?? "";
  if (machine.state === "joining") return { look: "joining", word: "Joining", since: null, sentence: joiningSentence(machine, now) };
  if (machine.state === "paused") return { look: "paused", word: "Paused", since, sentence: said };
  if (machine.state === "draining") return { look: "draining", word: "Draining", since, sentence: said };
  if (machine.state === "lost") return { look: "lost", word: "Lost", since, sentence: said };
  return closed(node) ?? outOfUse(node) ?? { look: "active", word: "Active", since, sentence: node ? said : "Its engine has not described it yet." };
}

function joiningSentence(machine: Machine, now: Date): string {
  if (!machine.joins_until) return machine.message ?? "";
  if (new Date(machine.joins_until) <= now) return "Its command ran out. Get another, or remove it.";
  return `Waits until ${shortTime(machine.joins_until, now)} for its command to be run.`;
}

function ownCondition(node: Node): Condition {
  if (node.state === "silent") {
    return { look: "lost", word: "Silent", since: null, sentence: "Its engine does not answer. Health says more." };
  }
  if (node.intake === "draining") {
    const sentence = node.replicas === 0 ? "It is empty." : "What runs there moves to other machines.";
    return { look: "draining", word: "Draining", since: null, sentence };
  }
  if (node.intake === "cordoned") {
    return { look: "paused", word: "Paused", since: null, sentence: "Nothing new starts there; what runs stays." };
  }
  return closed(node) ?? outOfUse(node) ?? { look: "active", word: "Active", since: null, sentence: "It takes containers." };
}

/** Not by the operator's word. */
function closed(node: Node | null): Condition | null {
  if (node?.state !== "cordoned" || node.intake !== "open") return null;
  return { look: "attention", word: "Closed", since: null, sentence: "Nothing new starts there. Health says why." };
}

function outOfUse(node: Node | null): Condition | null {
  const count = node ? unusable(node).length : 0;
  if (count === 0) return null;
  const word = count === 1 ? "1 GPU out of use" : `${count} GPUs out of use`;
  return { look: "attention", word, since: null, sentence: "It takes containers. Why is said below." };
}

export function unusable(node: Node) {
  return node.gpus.filter((gpu) => gpu.unusable_because);
}

export function replicasOf({ node, machine }: Listed): number {
  return machine?.replicas ?? node?.replicas ?? 0;
}

/** "1 replica", "12 replicas" */
export function replicaCount(count: number): string {
  return count === 1 ? "1 replica" : `${count.toLocaleString("en-US")} replicas`;
}

/** Whether a replica of this one could go somewhere else. */
export function isOnlyTaker(one: Listed, all: Listed[]): boolean {
  return !all.some((other) => other.key !== one.key && takesReplicas(other));
}

function takesReplicas({ node, machine }: Listed): boolean {
  return machine ? machine.state === "active" : node?.state === "ready";
}
