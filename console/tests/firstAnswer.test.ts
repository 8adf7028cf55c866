import { expect, test } from "vitest";

import { roughly } from "../src/components/times";
import { firstAnswer } from "../src/pages/create/firstAnswer";
import type { Fit, ModelPlan } from "../src/pages/create/start/origin";

const PLAN = { model: { download_bytes: 15.2e9 }, cache: { size_gib: 21 } } as ModelPlan;
const MEASURED = { image_bytes_per_s: 2e8, download_s: 130, load_s: 49, again_s: 50, own: true };
const NOTHING = { image_bytes_per_s: null, download_s: null, load_s: null, again_s: null, own: true };

function on(start: Fit["start"]): Fit {
  return { start } as Fit;
}

test("what was measured adds up, and later starts are said", () => {
  const found = firstAnswer(PLAN, on(MEASURED), 8.2e9);
  expect(found.phases.map((one) => one.seconds)).toEqual([41, 130, 49]);
  expect(found.title).toBe("about 3 min 40 s");
  expect(found.shares.map((one) => one.name)).toEqual(["image", "weights", "load"]);
  expect(found.shares.reduce((sum, one) => sum + one.share, 0)).toBeCloseTo(1);
  expect(found.note).toContain("Measured in your earlier starts");
  expect(found.note).toContain("Later starts find image and weights on the machine and take about 50 s.");
});

test("what is half known is no time", () => {
  const found = firstAnswer(PLAN, on({ ...MEASURED, load_s: null, again_s: null, own: false }), 8.2e9);
  expect(found.title).toBe("23.4 GB to fetch");
  expect(found.shares.map((one) => one.name)).toEqual(["image", "weights"]);
  expect(found.note).toContain("Measured in starts of other organizations here");
  expect(found.note).toContain("Later starts find image and weights on the machine.");
});

test("where nothing was measured it says so", () => {
  const found = firstAnswer(PLAN, on(NOTHING), null);
  expect(found.title).toBe("15.2 GB and the image");
  expect(found.shares).toEqual([]);
  expect(found.note).toContain("Nothing like it has started here yet");
  expect(firstAnswer({ ...PLAN, cache: null }, on(NOTHING), null).note).not.toContain("Later starts");
});

test("an image whose size nobody knows has no time", () => {
  expect(firstAnswer(PLAN, on(MEASURED), null).phases[0]?.seconds).toBeNull();
});

test.each([
  [0.2, "1 s"],
  [59.6, "1 min"],
  [220, "3 min 40 s"],
  [3_900, "1 h 5 min"],
])("%s s is %s", (seconds, words) => {
  expect(roughly(seconds)).toBe(words);
});
