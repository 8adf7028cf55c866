import { expect, test } from "vitest";

import type { Container } from "@/api/queries";
import { ageOf, endOf } from "@/containers/replicas";
import type { Measured } from "@/containers/metrics/measured";
import { rateIn, responseTimeIn } from "@/pages/service/lastHour";
import { priceInWords } from "@/pages/service/prices";

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

test.each([
  ["RUNNING", 2, "$3.10/h now, $1.55 – 6.20/h for 1 to 4 replicas"],
  ["STARTING", 0, "$1.55 – 6.20/h once it is ready"],
  ["STOPPED", 0, "$1.55 – 6.20/h when it runs"],
])("the price of one that is %s", (state, ready, words) => {
  const resources = { mode: "autoscaling", min_replicas: 1, max_replicas: 4 };
  const container = { state, asleep: false, replicas: { ready, desired: 2 }, resources, price_per_hour_microusd: 1_550_000 };
  expect(priceInWords(container as unknown as Container)).toBe(words);
});
