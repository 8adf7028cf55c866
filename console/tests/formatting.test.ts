/** Money, sizes, times and durations as people read them. */
import { expect, test } from "vitest";

import { parseAnsi } from "@/components/ansi";
import { byDay, lastDays } from "@/components/days";
import { dollars } from "@/components/Money";
import { priceRange } from "@/components/PriceRange";
import { runOut } from "@/components/runOut";
import { binaryUnit, parameterCount, size } from "@/components/sizes";
import { dayAndTime, duration, longDate, shortTime } from "@/components/times";
import type { Billing } from "@/api/queries";
import { hardware, shortDigest } from "@/containers/resources";
import { speed } from "@/pages/playground/timings";

const NOW = new Date("2026-11-18T12:00:00Z");

test.each([
  [0, "$0.00"],
  [5_000, "$0.005"],
  [500, "$0.0005"],
  [1_100_000, "$1.10"],
  [5_505_000, "$5.505"],
  [422_500_000, "$422.50"],
  [-2_000_000, "−$2.00"],
  [1_234_567_000_000, "$1,234,567.00"],
])("%d micro-dollars are %s", (microusd, text) => {
  expect(dollars(microusd)).toBe(text);
});

test("a price is a range only where it can change", () => {
  expect(priceRange(1_100_000, 1, 1)).toBe("$1.10");
  expect(priceRange(1_100_000, 1, 4)).toBe("$1.10 – 4.40");
});

test.each([
  [900, "1 kB"],
  [5_100_000, "5 MB"],
  [8_200_000_000, "8.2 GB"],
  [999_400_000, "999 MB"],
  [999_900_000, "1.0 GB"],
  [999_900, "1 MB"],
])("%d bytes are %s", (bytes, text) => {
  expect(size(bytes)).toBe(text);
});

test.each([
  [494_032_768, "494 M"],
  [999_885_952, "1.0 B"],
  [7_615_616_512, "7.6 B"],
])("%d parameters are %s", (parameters, text) => {
  expect(parameterCount(parameters)).toBe(text);
});

test("a binary unit is the largest that there is one of", () => {
  expect([2 ** 31, 2 ** 30 - 1, 2 ** 20, 3].map((bytes) => binaryUnit(bytes)[0])).toEqual(["GiB", "MiB", "MiB", "KiB"]);
});

test.each([
  [42_000, "42 s"],
  [11 * 60_000, "11 min"],
  [131 * 60_000, "2 h 11 min"],
  [148 * 3_600_000, "6 d 4 h"],
  [-1, "0 s"],
])("%d ms last %s", (ms, text) => {
  expect(duration(ms)).toBe(text);
});

test("a time is as exact as it is near", () => {
  expect(shortTime("2026-11-18T09:05:00Z", NOW)).toBe("09:05");
  expect(shortTime("2026-11-12T09:05:00Z", NOW)).toBe("12 Nov");
  expect(dayAndTime(new Date("2026-11-18T22:10:00Z"), NOW)).toBe("today 22:10");
  expect(dayAndTime(new Date("2026-11-19T15:08:00Z"), NOW)).toBe("Thu 15:08");
  expect(dayAndTime(new Date("2026-12-12T15:08:00Z"), NOW)).toBe("12 Dec");
  expect(longDate("2027-01-02T00:00:00Z", NOW)).toBe("2 Jan 2027");
});

test("credit that ends within a day warns", () => {
  const billing = { suspended: false, available_microusd: 1, burn_per_hour_microusd: 1 } as unknown as Billing;
  expect(runOut({ ...billing, runs_out_at: "2026-11-18T22:10:00Z" }, NOW)).toEqual({ sentence: "Runs out today 22:10", tone: "warn" });
  expect(runOut({ ...billing, runs_out_at: "2026-11-22T15:08:00Z" }, NOW)?.tone).toBeUndefined();
  expect(runOut({ ...billing, runs_out_at: null }, NOW)).toBeNull();
  expect(runOut({ ...billing, available_microusd: 0, burn_per_hour_microusd: 0, runs_out_at: null }, NOW)?.sentence).toBe("No credit");
});

test("days have their sums, and those without have none", () => {
  const amounts = [
    { day: "2026-11-17", microusd: 1_000_000 },
    { day: "2026-11-17", microusd: 500_000 },
  ];
  expect(byDay(["2026-11-16", "2026-11-17"], amounts)).toEqual([0, 1.5]);
  expect(lastDays(7)).toHaveLength(7);
});

test("a line's colours are kept and its other escapes dropped", () => {
  expect(parseAnsi("\x1b[31mred\x1b[0m \x1b]0;title\x07after")).toEqual([{ text: "red", color: 1 }, { text: " " }, { text: "after" }]);
  expect(parseAnsi("\x1b[38;2;1;31;3mtrue\u202e colour")).toEqual([{ text: "true colour" }]);
});

test("an instance type in one line", () => {
  const sizes = { vcpu_millis: 7_500, memory_bytes: 64 * 2 ** 30 };
  const type = { gpu_model: "NVIDIA L40S", gpu_count: 2, gpu_memory_bytes: 46_068 * 2 ** 20, ...sizes };
  expect(hardware(type)).toBe("2 × L40S 45 GiB · 7.5 vCPU · 64 GiB RAM");
  expect(hardware({ ...type, gpu_memory_bytes: null })).toBe("2 × L40S · 7.5 vCPU · 64 GiB RAM");
  expect(hardware({ ...type, gpu_count: 1, gpu_model: "NVIDIA H100 80GB HBM3" })).toBe("H100 80GB HBM3 · 7.5 vCPU · 64 GiB RAM");
  expect(hardware({ ...type, gpu_count: 0, gpu_model: null, gpu_memory_bytes: null })).toBe("No GPU · 7.5 vCPU · 64 GiB RAM");
  expect(shortDigest(`sha256:9c41${"0".repeat(56)}e07b`)).toBe("sha256:9c41…e07b");
});

test("an answer that came at once has no speed", () => {
  const timings = { status: 200, requestId: null, tokens: 41, totalMs: 1_100 };
  expect(speed({ ...timings, firstTokenMs: 100, pieces: 41 })).toBe("40.0 tokens/s");
  expect(speed({ ...timings, firstTokenMs: null, pieces: 1 })).toBe("–");
  expect(speed({ ...timings, firstTokenMs: 1_099.5, pieces: 1 })).toBe("–");
});
