/** What the health page says: parts that say the same are one entry. Pure. */
import type { Part } from "./queries";

/** Several parts of one kind in one state, for one reason. */
export interface Cause {
  key: string;
  kind: string;
  state: Part["state"];
  /** "Controller job: sending of mail", or "20 controller jobs". */
  title: string;
  message: string;
  advice: string | null;
  /** Since when the first of them is so. */
  since: string | null;
  /** Each of them: what it is about in words, "sending of mail", and as logs name it, "mail". */
  members: { word: string; name: string }[];
  /** Machines have a page that shows more. */
  isMachine: boolean;
}

interface Kind {
  one: (name: string) => string;
  many: (count: number) => string;
  isMachine?: boolean;
}

const machines = (count: number) => `${count} machines`;

/** The first word of a part's name says what it is a part of. */
const KINDS: Record<string, Kind> = {
  reconciler: { one: (name) => `Controller job: ${name}`, many: (count) => `${count} controller jobs` },
  gateway: { one: (name) => `Gateway ${name}`, many: (count) => `${count} gateways` },
  engine: { one: (name) => `Engine of ${name}`, many: (count) => `Engines of ${machines(count)}`, isMachine: true },
  isolation: { one: (name) => `Isolation on ${name}`, many: (count) => `Isolation on ${machines(count)}`, isMachine: true },
  host: { one: (name) => `Host of ${name}`, many: (count) => `Hosts of ${machines(count)}`, isMachine: true },
  clock: { one: (name) => `Clock of ${name}`, many: (count) => `Clocks of ${machines(count)}`, isMachine: true },
  images: { one: (name) => `Images on ${name}`, many: (count) => `Images on ${machines(count)}`, isMachine: true },
  caches: { one: (name) => `Caches on ${name}`, many: (count) => `Caches on ${machines(count)}`, isMachine: true },
  certificate: { one: (name) => `Certificate ${name}`, many: (count) => `${count} certificates` },
};
/** What a job of the controller does; one of a newer server keeps its own name. */
const JOBS: Record<string, string> = {
  alerts: "credit alerts",
  capsules: "capsules of ended replicas",
  "card-payments": "card payments",
  containers: "starting and stopping containers",
  doctor: "network diagnosis",
  documents: "invoices and receipts",
  earnings: "earnings of machine owners",
  housekeeping: "removal of old data",
  ledger: "check of the ledger",
  logs: "collection of logs",
  machines: "states of machines",
  mail: "sending of mail",
  proofs: "hardware checks",
  renewals: "renewal of paid hours",
  sleep: "sleep and wake-up",
  "top-ups": "automatic top-ups",
  webhooks: "delivery of webhooks",
};
/** Without a gateway nothing is served, without a database nothing works at all: a job that waits does less harm. */
const GRAVEST = ["database", "gateway", "engine", "tunnel"];
const ORDER: Part["state"][] = ["failing", "warning", "unknown", "ok"];
const MOST_NAMED = 4;

/** The worst first, and among those what most depends on. */
export function causesOf(parts: Part[]): Cause[] {
  const groups = new Map<string, Part[]>();
  for (const part of parts) {
    const key = JSON.stringify([part.state, kindOf(part), part.message, part.what_to_do]);
    groups.set(key, [...(groups.get(key) ?? []), part]);
  }
  return [...groups.entries()]
    .map(([key, members]) => causeOf(key, members))
    .toSorted((one, other) => ORDER.indexOf(one.state) - ORDER.indexOf(other.state) || gravity(one) - gravity(other));
}

function causeOf(key: string, members: Part[]): Cause {
  const first = members[0]!;
  const kind = kindOf(first);
  const since = members.map((one) => one.since).filter((at) => at !== null);
  return {
    key,
    kind,
    state: first.state,
    title: members.length === 1 ? titleOf(first) : (KINDS[kind]?.many(members.length) ?? `${members.length} × ${kind}`),
    message: first.message,
    advice: first.what_to_do,
    since: since.toSorted()[0] ?? null,
    members: members.map((one) => ({ word: wordOf(one), name: nameOf(one) })),
    isMachine: KINDS[kind]?.isMachine ?? false,
  };
}

function kindOf({ name }: Part): string {
  return name.split(" ", 1)[0]!;
}

/** Without its kind. */
function nameOf({ name }: Part): string {
  return name.slice(name.indexOf(" ") + 1);
}

function wordOf(part: Part): string {
  const name = nameOf(part);
  return kindOf(part) === "reconciler" ? (JOBS[name] ?? name) : name;
}

function titleOf(part: Part): string {
  const kind = KINDS[kindOf(part)];
  if (kind && part.name.includes(" ")) return kind.one(wordOf(part));
  return part.name.charAt(0).toUpperCase() + part.name.slice(1);
}

function gravity({ kind }: Cause): number {
  const place = GRAVEST.indexOf(kind);
  return place < 0 ? GRAVEST.length : place;
}

/** "30 of 52 parts work": the same words wherever health is counted. */
export function working(parts: Pick<Part, "state">[]): string {
  return `${parts.filter((one) => one.state === "ok").length} of ${parts.length} parts work`;
}

/** "22 of 52 parts fail: gateway, engine of rack-4, 20 controller jobs" */
export function verdictOf(parts: Part[]): string {
  const causes = causesOf(parts);
  const said = (state: Part["state"], verb: (count: number) => string) => {
    const count = parts.filter((one) => one.state === state).length;
    return count > 0 ? `${count} of ${parts.length} parts ${verb(count)}: ${listed(causes.filter((one) => one.state === state))}` : null;
  };
  const worst =
    said("failing", (count) => (count === 1 ? "fails" : "fail")) ??
    said("warning", (count) => (count === 1 ? "needs attention" : "need attention")) ??
    said("unknown", (count) => (count === 1 ? "is not known" : "are not known"));
  return worst ?? `All ${parts.length} parts work`;
}

function listed(causes: Cause[]): string {
  const words = causes.map(({ title }) => title.charAt(0).toLowerCase() + title.slice(1));
  const rest = words.length - MOST_NAMED;
  return rest > 0 ? `${words.slice(0, MOST_NAMED).join(", ")} and ${rest} more` : words.join(", ");
}
