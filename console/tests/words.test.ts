/** Sentences that are put together from what the API says. */
import { expect, test } from "vitest";

import type { InstanceType } from "@/api/queries";
import { sentenceFor } from "@/containers/activities";
import { fixInWords } from "@/containers/fixWords";
import type { Activity } from "@/containers/queries";

const TYPES = [
  { name: "cpu-nano", price_per_hour_microusd: 5_000 },
  { name: "cpu-small", price_per_hour_microusd: 10_000 },
] as InstanceType[];

test.each([
  ["resources.instance_type", "cpu-nano", "cpu-small", "a larger instance type, $0.005 → $0.01 per hour"],
  ["resources.instance_type", "cpu-nano", "gone", "a larger instance type"],
  ["port", 8080, 8000, "change the port"],
  ["health_check.timeout_s", 300, 600, "change the health timeout"],
])("the fix of %s from %s to %s", (field, from, to, words) => {
  expect(fixInWords({ field, from, to }, TYPES)).toBe(words);
});

const activity = (kind: string, details: object, message: string | null = null): Activity =>
  ({ kind, details, message }) as unknown as Activity;

test("an activity says what happened, then why", () => {
  const scaled = activity("container.autoscale", { from: 1, to: 5 }, "12.0 in flight + headroom 6.0 = 18.0, ÷ 4 → 5 replicas.");
  expect(sentenceFor(scaled)).toMatchObject({ what: "Scaled 1 → 5", detail: scaled.message });
  expect(sentenceFor(activity("container.state", { to: "RUNNING" }))).toEqual({ what: "Running", detail: "", tone: "ok" });
  expect(sentenceFor(activity("container.edit", { fields: ["image", "port"] })).detail).toBe("image, port");
  const removed = activity("cache.delete", { node: "machine-1", size_bytes: 15 });
  expect(sentenceFor(removed)).toMatchObject({ what: "Delete of a cache asked for", detail: "on machine-1" });
  expect(sentenceFor(activity("container.of_tomorrow", {})).what).toBe("of tomorrow");
});
