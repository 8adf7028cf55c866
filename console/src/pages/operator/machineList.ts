/** What the operator's list of machines says of each. Pure. */
import { type Condition, joinedCondition } from "@/machines/condition";
import { type Machine, nameOf, takesReplicas } from "@/machines/machine";

import type { Node } from "./queries";

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

/** What organizations lend is looked after in a list of its own. */
export function isLent({ machine }: Listed): boolean {
  return machine !== null && machine.owner_organization_id !== null;
}

export function conditionOf({ node, machine }: Listed, now: Date): Condition {
  if (!machine) return node ? ownCondition(node) : { look: "attention", word: "Unknown", since: null, sentence: "" };
  const condition = joinedCondition(machine, "operator", now);
  if (!takesReplicas(machine)) return condition;
  return closed(node) ?? outOfUse(node) ?? (node ? condition : { ...condition, sentence: "Moorage has not read its hardware yet." });
}

const TROUBLE: Condition["look"][] = ["lost", "attention"];

/** What needs the operator first; otherwise in the order that they are in. */
export function troubleFirst(machines: Listed[], now: Date): Listed[] {
  const rank = (one: Listed) => {
    const place = TROUBLE.indexOf(conditionOf(one, now).look);
    return place < 0 ? TROUBLE.length : place;
  };
  return machines.toSorted((one, other) => rank(one) - rank(other));
}

/** What is known of what it uses was so when it was last heard of. */
export function isSilent({ node, machine }: Listed): boolean {
  return machine ? machine.state === "lost" : node?.state === "silent";
}

function ownCondition(node: Node): Condition {
  if (node.state === "silent") {
    return { look: "lost", word: "Silent", since: null, sentence: "Its engine does not answer. See Health." };
  }
  if (node.intake === "draining") {
    const sentence = node.replicas === 0 ? "It is empty." : "Its replicas are moving to other machines.";
    return { look: "draining", word: "Draining", since: null, sentence };
  }
  if (node.intake === "cordoned") {
    return { look: "paused", word: "Paused", since: null, sentence: "It takes no new replicas. Those that run stay." };
  }
  return closed(node) ?? outOfUse(node) ?? { look: "active", word: "Active", since: null, sentence: "It takes containers." };
}

/** Not by the operator's word. */
function closed(node: Node | null): Condition | null {
  if (node?.state !== "cordoned" || node.intake !== "open") return null;
  return { look: "attention", word: "Closed", since: null, sentence: "Nothing new starts there. See Health for the reason." };
}

function outOfUse(node: Node | null): Condition | null {
  const count = node ? unusable(node).length : 0;
  if (count === 0) return null;
  const word = count === 1 ? "1 GPU out of use" : `${count} GPUs out of use`;
  return { look: "attention", word, since: null, sentence: "It takes containers. See below for the reason." };
}

export function unusable(node: Node) {
  return node.gpus.filter((gpu) => gpu.unusable_because);
}

export function replicasOf({ node, machine }: Listed): number {
  return machine?.replicas ?? node?.replicas ?? 0;
}

/** Whether a replica of this one could go somewhere else. */
export function isOnlyTaker(one: Listed, all: Listed[]): boolean {
  return !all.some(({ key, node, machine }) => key !== one.key && (machine ? takesReplicas(machine) : node?.state === "ready"));
}
