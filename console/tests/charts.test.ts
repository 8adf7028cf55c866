/** What charts are made of: the values beside them, their steps, and where their time begins. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

import type { Schemas } from "@/api/client";
import { dataOf, optionsOf } from "@/components/chart/plot";
import { niceMax } from "@/components/chart/scale";
import { tick } from "@/components/chart/ticks";
import { demandOver, numbered, wantedOver } from "@/containers/metrics/decisions";
import { latestOf, measured as measuredOf, type Measured } from "@/containers/metrics/measured";
import type { Autoscaling, Decision } from "@/containers/metrics/queries";
import { axisTime, existingIn, LAST_HOUR, spanText } from "@/containers/metrics/range";
import { panelsOf } from "@/pages/metrics/panels";
import { countsBetween } from "@/pages/create/priceSteps";

const NOW = Date.parse("2026-11-18T12:00:00Z");
const MINUTE_MS = 60_000;

test.each([
  [[0, 0.0002, 0.0004], 0.0002, ["0.0000", "0.0002", "0.0004"]],
  [[0, 0.25, 0.5], 0.25, ["0.00", "0.25", "0.50"]],
  [[0, 5, 10], 5, ["0", "5", "10"]],
  [[5_000, 10_000, 12_500], 2_500, ["5000", "10.0k", "12.5k"]],
])("values on an axis never read the same: %j", (values, step, texts) => {
  expect(values.map((value) => tick(value, step))).toEqual(texts);
});

test.each([0, 0.0003, 0.9, 1, 7, 99, 4_321])("an axis ends above %d", (max) => {
  expect(niceMax(max)).toBeGreaterThan(max);
});

test("the time of a chart begins with its container", () => {
  const young = NOW - 5 * MINUTE_MS;
  expect(existingIn(LAST_HOUR, young, NOW)).toEqual([young, NOW]);
  expect(existingIn(LAST_HOUR, NOW - 180 * MINUTE_MS, NOW)).toEqual([NOW - 60 * MINUTE_MS, NOW]);
  // A time before it is asked for as it is, and answered with nothing.
  const before = young - 10 * MINUTE_MS;
  expect(existingIn({ seconds: 60, until: before }, young, NOW)).toEqual([before - MINUTE_MS, before]);
});

test.each([
  [120, "12:00:00"],
  [3_600, "12:00"],
  [7 * 86_400, "18 Nov"],
])("below a chart of %d s", (seconds, text) => {
  expect(axisTime({ seconds })(NOW / 1000)).toBe(text);
});

test("a span in words names days where it has to", () => {
  expect(spanText(LAST_HOUR, NOW)).toBe("11:00 – 12:00");
  expect(spanText({ seconds: 86_400, until: null }, NOW)).toBe("17 Nov 12:00 – 18 Nov 12:00");
});

const decision = (at: string, before: number, replicas: number): Decision =>
  ({ at, replicas_before: before, replicas, reason: "", limited_by: null }) as Decision;

test("what was wanted holds from each decision until the next", () => {
  const items = [decision("2026-11-18T11:40:00Z", 3, 2), decision("2026-11-18T11:20:00Z", 1, 3)];
  const times = ["11:10", "11:20", "11:30", "11:50"].map((time) => Date.parse(`2026-11-18T${time}:00Z`) / 1000);
  expect(wantedOver({ items, replicas: { desired: 2 } } as Autoscaling, times)).toEqual([1, 3, 3, 2]);
  expect(wantedOver({ items: [], replicas: { desired: 2 } } as unknown as Autoscaling, times)).toEqual([2, 2, 2, 2]);
});

test("decisions that changed nothing have no number", () => {
  const items = [decision("2026-11-18T11:40:00Z", 3, 2), decision("2026-11-18T11:30:00Z", 3, 3), decision("2026-11-18T11:20:00Z", 1, 3)];
  const shown = numbered(items, [NOW / 1000 - 3_600, NOW / 1000]);
  expect(shown.map((one) => [one.number, one.decision.replicas])).toEqual([[2, 2], [1, 3]]);
});

const measured = (changes: Partial<Measured>): Measured => ({
  stepS: 10,
  times: [0, 10, 20],
  settled: 3,
  range: [0, 20],
  series: {},
  replicas: [],
  ...changes,
});

test("demand is what is in flight by what a replica is meant to have", () => {
  expect(demandOver(measured({ series: { in_flight: [4, null, 8] } }), 4)).toEqual([1, null, 2]);
  expect(demandOver(measured({}), 4)).toBeNull();
});

test.each([
  [6 * 2 ** 20, "MiB", 6],
  [3 * 2 ** 30, "GiB", 3],
  [0, "KiB", 0],
])("memory of %d bytes is in %s", (bytes, unit, value) => {
  const replica = { id: "rep_abcdefghij", cpuMillis: [null], memoryBytes: [bytes], gpuPercent: null, gpuMemoryBytes: null };
  const memory = panelsOf(measured({ replicas: [replica] })).find((one) => one.title === "Memory")!;
  expect([memory.unit, memory.lines[0]!.values[0]]).toEqual([unit, value]);
});

test("what is small is not nothing beside the crosshair", () => {
  const rate = panelsOf(measured({ series: { request_rate: [0, 0.0042, 0.0042] } }))[0]!;
  expect(rate.now).toBe("0.0042");
});

test.each([
  [1, 1, [1]],
  [2, 4, [2, 3, 4]],
  [1, 8, [1, 2, 3, 4, 5, 6, 7, 8]],
  [1, 30, [1, 5, 9, 13, 18, 22, 26, 30]],
])("the price of %d to %d replicas reaches the most", (min, max, counts) => {
  expect(countsBetween(min, max)).toEqual(counts);
});

describe("what is not known yet", () => {
  beforeEach(() => {
    vi.useFakeTimers({ now: NOW });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  /** A minute and a half in steps of 10 s up to now, as the API answers it: unknown is null. */
  const found = (values: (number | null)[]): Schemas["Metrics"] => {
    const times = values.map((_, index) => new Date(NOW - (values.length - index) * 10_000).toISOString());
    const series = {
      in_flight: values,
      queued: values,
      request_rate: values,
      response_time_p50_ms: values,
      responses_2xx: values,
      responses_5xx: values,
      replica_count: values.map(() => 2),
    };
    const replica = { replica_id: "rep_abcdefghij", series: { cpu_millis: values, memory_bytes: values }, gpus: [] };
    return { step_s: 10, times, series, replicas: [replica] } as unknown as Schemas["Metrics"];
  };

  const edge = [7, 8, 8, 8, 8, 8, null, null, null];

  test("is null in every series, and never zero", () => {
    const { series, replicas } = measuredOf(found(edge), NOW - 90_000, NOW);
    for (const name of ["in_flight", "queued", "request_rate", "response_time_p50_ms", "responses_2xx"]) {
      expect(series[name], name).toEqual(edge);
    }
    expect(series["replica_count"], "known at once").toEqual(edge.map(() => 2));
    expect(replicas[0]!.cpuMillis).toEqual(edge);
    expect(replicas[0]!.gpuPercent).toBeNull();
    expect(latestOf(series["in_flight"])).toBe(8);
    expect(latestOf([null, null])).toBeNull();
  });

  test("is null too where a step is not over and counts what came so far", () => {
    const { series, settled } = measuredOf(found([7, 8, 8, 8, 8, 8, 3, 0, 0]), NOW - 90_000, NOW);
    expect(settled).toBe(7);
    expect(series["in_flight"]).toEqual([7, 8, 8, 8, 8, 8, 3, null, null]);
  });

  test("is a gap in what is drawn, in lines and in bars", () => {
    const panels = panelsOf(measuredOf(found(edge), NOW - 90_000, NOW));
    expect(panels.map((panel) => panel.title)).toContain("Status classes");
    for (const panel of panels) {
      const drawing = { times: [...(panel.times ?? edge.keys())], lines: panel.lines, height: 100 };
      const [, ...drawn] = dataOf(drawing);
      for (const values of drawn as (number | null)[][]) {
        if (values.length === edge.length) expect(values.slice(-3), panel.title).toEqual([null, null, null]);
        expect(values, panel.title).not.toContain(0);
        expect(values.every((value) => value === null || Number.isFinite(value)), panel.title).toBe(true);
      }
      for (const one of optionsOf(drawing, () => drawing, "light", 300).series.slice(1)) {
        expect(one.spanGaps ?? false, panel.title).toBe(false);
      }
    }
  });

  test("the figure beside a title is the newest that is known", () => {
    const rate = panelsOf(measuredOf(found(edge), NOW - 90_000, NOW)).find((one) => one.title === "Request rate")!;
    expect(rate.now).toBe("8");
  });
});
