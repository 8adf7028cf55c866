/** What is said and drawn of machines that joined. */
import { expect, test } from "vitest";

import { counted, joinedCondition } from "@/machines/condition";
import { intakeOf, isExpected, type Machine, seenAgo, takesReplicas } from "@/machines/machine";
import { type Day, dayInWords, markOf, overallReliability, percent, stripInWords, tierOf } from "@/machines/presence";
import { isOnlyTaker, type Listed, troubleFirst } from "@/pages/operator/machineList";

const NOW = new Date("2026-11-18T12:00:00Z");
const HOUR = 3600;

function machine(changes: Partial<Machine>): Machine {
  return {
    id: "mch_1",
    name: "garage",
    state: "active",
    state_since: "2026-11-18T09:12:00Z",
    owner_organization_id: "org_1",
    message: "It takes containers.",
    joined_at: "2026-10-18T09:12:00Z",
    joins_until: null,
    returns_as: null,
    stopped_by: null,
    paused_until: null,
    reliability: 0.98,
    ...changes,
  } as Machine;
}

const day = (there_s: number, away_s = 0, lost_s = 0): Day => ({ day: "2026-11-12", there_s, away_s, lost_s });

test.each([
  ["verifying", "verifying", "Verifying"],
  ["probation", "probation", "Probation"],
  ["active", "active", "Active"],
  ["lost", "lost", "Lost"],
  ["banned", "banned", "Banned"],
] as const)("%s has a look and a word of its own", (state, look, word) => {
  expect(joinedCondition(machine({ state }), "owner", NOW)).toMatchObject({ look, word });
});

test.each([
  ["owner", "owner", "by you"],
  ["operator", "owner", "by the operator"],
  ["moorage", "owner", "by Moorage"],
  ["operator", "operator", "by you"],
  ["owner", "operator", "by its owner"],
] as const)("what the %s paused, the %s reads as %s", (stopped_by, you, by) => {
  expect(joinedCondition(machine({ state: "paused", stopped_by }), you, NOW).by).toBe(by);
});

test("of the operator's own nobody asks who stopped it", () => {
  const own = machine({ state: "draining", stopped_by: "operator", owner_organization_id: null });
  expect(joinedCondition(own, "operator", NOW).by).toBeUndefined();
});

test("one that proves itself or is on probation may be paused and drained; one that is banned may not", () => {
  expect((["verifying", "probation", "banned"] as const).map((state) => intakeOf(machine({ state })))).toEqual(["open", "open", null]);
  expect(intakeOf(machine({ state: "lost", returns_as: "draining" }))).toBe("draining");
  expect(isExpected(machine({ state: "verifying" }))).toBe(true);
});

test("a machine on probation takes replicas of another", () => {
  const listed = (one: Machine): Listed => ({ key: one.id, name: one.name ?? "", node: null, machine: one });
  const own = listed(machine({ id: "mch_own", owner_organization_id: null }));
  const at = (state: Machine["state"]) => listed(machine({ id: "mch_other", state }));
  expect(takesReplicas(machine({ state: "probation" }))).toBe(true);
  expect(isOnlyTaker(own, [own, at("probation")])).toBe(false);
  expect(isOnlyTaker(own, [own, at("verifying"), at("banned")])).toBe(true);
});

test.each([
  [day(24 * HOUR), "there"],
  [day(24 * HOUR - 60, 60), "there"],
  [day(20 * HOUR, 4 * HOUR), "away"],
  [day(0, 24 * HOUR), "away"],
  [day(23.9 * HOUR, 0, 0.1 * HOUR), "lost"],
  [day(0), "none"],
])("a day's mark", (one, mark) => {
  expect(markOf(one)).toBe(mark);
});

test("machines are counted by what they are, each once", () => {
  expect(counted(["lost", "active", "probation", "active", "attention"])).toBe("2 active, 1 on probation, 1 needing attention, 1 lost");
});

test("what needs the operator comes first", () => {
  const listed = (key: string, state: Machine["state"]): Listed => ({ key, name: key, node: null, machine: machine({ id: key, state }) });
  const all = [listed("a", "active"), listed("b", "draining"), listed("c", "lost")];
  expect(troubleFirst(all, NOW).map((one) => one.key)).toEqual(["c", "a", "b"]);
});

test("a reliability is never rounded up to one, and a machine that proves itself is on no tier", () => {
  expect([percent(0.9996), percent(0.97), percent(1)]).toEqual(["99.9 %", "97.0 %", "100.0 %"]);
  expect([tierOf(machine({ tier: "trusted" })), tierOf(machine({ tier: "probation", state: "verifying" }))]).toEqual(["Trusted", "–"]);
});

test.each([
  [5_000, "now"],
  [18_000_000, "5 h ago"],
  [18_300_000, "5 h 5 min ago"],
])("%i ms ago", (ms, words) => {
  expect(seenAgo(ms)).toBe(words);
});

test("days are said in words", () => {
  expect(dayInWords(day(21 * HOUR, 3 * HOUR))).toBe("12 Nov: there 21 h 0 min, away 3 h 0 min");
  expect(dayInWords(day(0))).toBe("12 Nov: not counted on");
  expect(stripInWords([day(HOUR), day(HOUR, HOUR), day(0)])).toBe(
    "Last 3 days: 1 there all day, 1 away, announced, 0 with a loss, 1 not joined yet",
  );
});

test("of several machines each counts by the time that it was there", () => {
  const steady = machine({ reliability: 1, days: [day(24 * HOUR), day(24 * HOUR), day(24 * HOUR)] });
  const shaky = machine({ reliability: 0.6, days: [day(24 * HOUR)] });
  expect(overallReliability([steady, shaky])).toBeCloseTo(0.9);
  // Nobody has looked at it for a day yet: what it begins with is no measurement.
  expect(overallReliability([steady, machine({ reliability: 0.95, days: [day(HOUR)] })])).toBeCloseTo(1);
  expect(overallReliability([machine({ reliability: 0.95, days: [] })])).toBeNull();
  expect(overallReliability([machine({ reliability: 0.95, joined_at: null })])).toBeNull();
});
