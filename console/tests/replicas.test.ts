import { expect, test } from "vitest";

import type { Container } from "@/api/queries";
import type { StagedDraft } from "@/containers/queries";
import { ageOf, endOf, noneYet } from "@/containers/replicas";
import type { Measured } from "@/containers/metrics/measured";
import { rateIn, responseTimeIn } from "@/pages/service/lastHour";
import { priceInWords } from "@/pages/service/prices";
import { draftPrice } from "@/pages/settings/draftPrice";
import { waysOf } from "@/pages/settings/ways";

const NOW = new Date(2026, 10, 18, 12, 0);
const at = (hours: number, minutes: number) => new Date(2026, 10, 18, hours, minutes).toISOString();

test("a replica that ended has an end and an age that stops", () => {
  const lives = { state: "routed", created_at: at(9, 0), ready_at: at(10, 0), ended_at: null, reason: null };
  const ended = { ...lives, state: "removed", ended_at: at(10, 30), reason: "out_of_memory" };
  expect([ageOf(lives, NOW), endOf(lives, NOW)]).toEqual(["2 h 0 min", ""]);
  expect([ageOf(ended, NOW), endOf(ended, NOW)]).toEqual(["30 min", "10:30, out of memory"]);
  expect(ageOf({ ...ended, ended_at: null }, NOW)).toBe("–");
});

const measured = (rates: (number | null)[], times95: (number | null)[]) =>
  ({
    stepS: 60,
    settled: 2,
    times: [0, 1, 2].map((minute) => Date.parse(at(11, minute)) / 1000),
    series: { request_rate: rates, response_time_p95_ms: times95 },
  }) as unknown as Measured;

test("a response time of earlier says of when it is", () => {
  const quiet = measured([2, 0, null], [400, null, null]);
  expect([rateIn(quiet), responseTimeIn(quiet)]).toEqual([
    { text: "0/s", note: "120 in the hour" },
    { text: "400 ms", note: "at 11:00" },
  ]);
  expect(responseTimeIn(measured([2, 2, null], [400, 1_500, null]))).toEqual({ text: "1.5 s" });
  const unused = measured([0, 0, null], [null, null, null]);
  expect([rateIn(unused), responseTimeIn(unused)]).toEqual([{ text: "none" }, { text: "–" }]);
});

const FROM_1_TO_4 = { mode: "autoscaling", min_replicas: 1, max_replicas: 4 };
const container = (facts: object) =>
  ({
    state: "RUNNING",
    asleep: false,
    replicas: { ready: 2, desired: 2 },
    resources: FROM_1_TO_4,
    price_per_hour_microusd: 1_550_000,
    least_price_per_hour_microusd: 1_550_000,
    rollout: null,
    ...facts,
  }) as unknown as Container;

test.each([
  ["RUNNING", 2, "$3.10/h now, $1.55 – 6.20/h for 1 to 4 replicas"],
  ["STARTING", 0, "$1.55 – 6.20/h once it is ready"],
  ["STOPPED", 0, "$1.55 – 6.20/h when it runs"],
])("the price of one that is %s", (state, ready, words) => {
  expect(priceInWords(container({ state, replicas: { ready, desired: 2 } }))).toBe(words);
});

const EITHER = { least_price_per_hour_microusd: 1_000_000 };

test("what it costs now is a range where it takes machines of either kind", () => {
  expect(priceInWords(container(EITHER))).toBe("$2.00 – 3.10/h now, $1.00 – 6.20/h for 1 to 4 replicas");
  expect(priceInWords(container({ ...EITHER, resources: { mode: "general" }, replicas: { ready: 1, desired: 1 } }))).toBe("$1.00 – 1.55/h");
});

test("while two versions serve, nobody says what both cost at one's price", () => {
  const rollout = { strategy: "canary", beside: true };
  expect(priceInWords(container({ rollout }))).toBe("$1.55/h a replica");
  expect(priceInWords(container({ rollout, ...EITHER }))).toBe("$1.00 – 1.55/h a replica");
});

test.each([
  ["STOPPING", "No replica runs any more."],
  ["DELETING", "No replica runs any more."],
  ["STOPPED", "No replica runs."],
  ["RUNNING", "No replica yet."],
])("without a replica, one that is %s says so", (state, words) => {
  expect(noneYet(container({ state }))).toBe(words);
});

const draft = (each: [number, number], facts: object = {}) =>
  ({
    changes: [],
    price_per_hour_microusd: { from: each[0], to: each[1] },
    least_cost_per_hour_microusd: { from: each[0], to: each[1] },
    rolling: { cost_microusd: 0, room_for: 4, beside_at_least: 1, watch_s: 60 },
    replace_cost_microusd: 0,
    ...facts,
  }) as unknown as StagedDraft;
const priced = (...of: Parameters<typeof draftPrice>) => {
  const { before, strong, after } = draftPrice(...of);
  return `${before}${strong}${after}`;
};

test("what staged changes cost is said up to the dearer kind of machine", () => {
  const same = draft([1_550_000, 1_550_000]);
  expect(priced(same, container({}))).toBe("Costs the same: $1.55/h a replica, $3.10/h for the 2 that are ready now");
  expect(priced(same, container(EITHER))).toBe("Costs the same: up to $1.55/h a replica, up to $3.10/h for the 2 that are ready now");
  expect(priced(same, container({ rollout: { strategy: "rolling", beside: true } }))).toBe("Costs the same: $1.55/h a replica");
  const toEither = draft([1_550_000, 1_550_000], { changes: [{ field: "infrastructure", from: "operator", to: "any" }] });
  expect(priced(toEither, container({ replicas: { ready: 1, desired: 1 } }))).toBe("Costs the same: up to $1.55/h a replica");
});

test("another price is that of the fewest replicas, where their number may change", () => {
  const dearer = draft([1_550_000, 3_000_000]);
  expect(priced(dearer, container({}))).toBe("With the fewest replicas $1.55/h before, $3.00/h after");
  expect(priced(dearer, container({ resources: { mode: "general" } }))).toBe("$1.55/h before, $3.00/h after");
  const more = draft([1_550_000, 3_000_000], { least_cost_per_hour_microusd: { from: 1_550_000, to: 6_000_000 } });
  expect(priced(more, container(EITHER))).toBe("With the fewest replicas up to $1.55/h before, up to $6.00/h after, up to $3.00/h each replica");
});

test("to stop and start costs nothing more only where no hour is bought", () => {
  const replacing = (...of: Parameters<typeof waysOf>) => waysOf(...of).find(({ strategy }) => strategy === "replace")?.meaning;
  expect(replacing(draft([5_000, 5_000]), container({}))).toMatch(/ Costs nothing more\.$/);
  const dearer = draft([5_000, 10_000], { replace_cost_microusd: 20_000 });
  expect(replacing(dearer, container({}))).toMatch(/by themselves\. Buys \$0\.02 of hours\.$/);
  expect(replacing(dearer, container(EITHER))).toMatch(/ Buys up to \$0\.02 of hours\.$/);
});
