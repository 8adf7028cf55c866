/** Caches: filled in by a model's plan, listed, and seen to grow while a container starts. */
import { expect, test } from "vitest";

import type { Container } from "@/api/queries";
import { type Draft, EMPTY } from "@/containers/form/draft";
import { cleared, fill, type Filled, filledFrom, type Fit, isAsFilled, type ModelPlan, FROM_A_MODEL } from "@/pages/create/start/origin";
import { progressOf, waitingWords } from "@/pages/service/progress";
import { canBeDeleted, holds, lastUsed, noneYet } from "@/pages/settings/caches";
import type { Cache } from "@/pages/settings/queries";

const NOW = new Date("2026-11-18T12:00:00Z");
const GIB = 2 ** 30;

const FIT = {
  settings: {
    image: "vllm/vllm-openai:v0.11.0",
    provider: "docker-hub",
    start_command: "serve",
    port: 8000,
    health_path: "/health",
    health_timeout_s: 1200,
    api_path: "/v1",
    env: {},
  },
} as Fit;
const plan = (size_gib: number | null) =>
  ({
    model: { id: "hf:Qwen/Qwen2.5-7B-Instruct", repository: "Qwen/Qwen2.5-7B-Instruct", kind: "chat" },
    template: { name: "vllm", title: "vLLM" },
    cache: size_gib === null ? null : { size_gib },
  }) as ModelPlan;
const filled = (size_gib: number | null) => filledFrom(plan(size_gib), FIT, FROM_A_MODEL) as Filled;
const filledDraft = (draft: Draft, before: Filled | null, now: Filled) => fill(draft, before, now, "l40s-48gb");

test("a plan's cache is filled in, and follows the plan until somebody writes another", () => {
  const first = filledDraft(EMPTY, null, filled(22));
  expect(first.cacheGib).toBe(22);
  expect(filledDraft(first, filled(22), filled(90)).cacheGib).toBe(90);
  expect(filledDraft({ ...first, cacheGib: 40 }, filled(22), filled(90)).cacheGib).toBe(40);
  expect(filledDraft({ ...first, cacheGib: null }, filled(22), filled(90)).cacheGib).toBe(null);
  expect(filledDraft(first, filled(22), filled(null)).cacheGib).toBe(null);
});

test("a draft that was kept before there were caches has the plan's", () => {
  const before = { ...filled(22), cacheGib: undefined } as unknown as Filled;
  expect(filledDraft({ ...EMPTY, name: "qwen" }, before, filled(22)).cacheGib).toBe(22);
});

test("another cache is still the template's deployment, and goes with it", () => {
  const draft = filledDraft(EMPTY, null, filled(22));
  expect(isAsFilled({ ...draft, cacheGib: 40 }, filled(22))).toBe(true);
  expect(cleared(draft, filled(22)).cacheGib).toBe(null);
  expect(cleared({ ...draft, cacheGib: 40 }, filled(22)).cacheGib).toBe(40);
});

const CACHE = {
  node: "machine-1",
  size_bytes: 14.8 * GIB,
  limit_bytes: 22 * GIB,
  in_use: false,
  deleting: false,
  used_at: "2026-11-12T09:00:00Z",
  measured_at: "2026-11-18T11:59:00Z",
} as Cache;

test.each([
  [{}, "14.8 GiB of 22 GiB", "12 Nov", true],
  [{ in_use: true }, "14.8 GiB of 22 GiB", "in use", false],
  [{ deleting: true }, "14.8 GiB of 22 GiB", "being deleted", false],
  [{ limit_bytes: null }, "14.8 GiB", "to be deleted", true],
  [{ limit_bytes: null, in_use: true }, "14.8 GiB", "in use", false],
  [{ measured_at: null, size_bytes: 0 }, "not measured yet, 22 GiB", "12 Nov", true],
])("a cache with %j holds %s, was used %s", (changes, size, used, deletable) => {
  const cache = { ...CACHE, ...changes };
  expect([holds(cache), lastUsed(cache, NOW), canBeDeleted(cache)]).toEqual([size, used, deletable]);
});

test("on machines of strangers nothing stays", () => {
  expect(noneYet({ infrastructure: "operator" } as Container)).toBe("None yet. The first start on a machine fills one.");
  expect(noneYet({ infrastructure: "any" } as Container)).toContain("ends with it");
});

const starting = (progress: object) =>
  ({ state: "STARTING", health_check: { timeout_s: 600 }, progress: { started_at: "2026-11-18T11:59:20Z", limit_s: 600, ...progress } }) as unknown as Container;

test.each([
  [{ step: "download", cache_bytes: 3.2e9, bytes_per_s: 112e6 }, { words: "downloading weights", figures: "3.2 GB in the cache, 112 MB/s" }],
  [{ step: "compile", cache_bytes: 15e9 }, { words: "compiling" }],
  [{ step: "load", cache_bytes: 15e9 }, { words: "loading the model" }],
  [{ step: "of tomorrow" }, undefined],
  [{}, undefined],
])("a start with %j", (progress, doing) => {
  const shown = progressOf(starting(progress), NOW);
  expect(shown).toMatchObject({ text: "40 of 600 s" });
  expect(shown?.doing).toEqual(doing);
  // Seconds are no measure of work that can be seen.
  expect(shown?.fraction).toBe(doing ? undefined : 40 / 600);
});

test.each([
  [100, undefined],
  [45, "Fails in 5 s unless it is ready by then."],
  [30, "Its time is up."],
])("a start that has been at it for 40 of %d s", (limit_s, words) => {
  expect(progressOf(starting({ limit_s }), NOW)?.soonUp).toBe(words);
});

test.each([
  ["RUNNING", 1, null, "Given up in 5 s unless it is ready by then. What is ready serves on."],
  ["RUNNING", 0, null, "Given up in 5 s unless it is ready by then."],
  ["RUNNING", 1, { strategy: "rolling", beside: true }, "The update goes back in 5 s unless it is ready by then."],
  ["RUNNING", 1, { strategy: "rolling", beside: false }, "Given up in 5 s unless it is ready by then. What is ready serves on."],
  ["RUNNING", 1, { strategy: "canary", beside: true }, "Given up in 5 s unless it is ready by then. What is ready serves on."],
  ["STARTING", 0, { strategy: "replace", beside: false }, "The update goes back in 5 s unless it is ready by then."],
])("what follows where a container that is %s with %d ready and the update %j has no time left", (state, ready, rollout, words) => {
  const container = { ...starting({ phase: "start", limit_s: 45 }), state, rollout, replicas: { ready, desired: 2 } } as unknown as Container;
  expect(progressOf(container, NOW)?.soonUp).toBe(words);
});

test("who waits for the first replica is said, also before its process runs", () => {
  expect(progressOf(starting({ started_at: null, waiting: 1 }), NOW)).toEqual({ text: "about to begin", waiting: 1 });
  expect(progressOf(starting({ waiting: 19 }), NOW)?.waiting).toBe(19);
  expect(waitingWords(1)).toBe("1 more replica waits for the first to fill the cache.");
  expect(waitingWords(19)).toMatch(/^19 more replicas wait /);
});

test.each([
  [{ phase: "pull", done_bytes: 5.1e9, total_bytes: 8.2e9 }, "5.1 GB of 8.2 GB", "pulling its image"],
  [{ phase: "pull", done_bytes: 0, total_bytes: 0 }, "asking the registry", "pulling its image"],
  [{ phase: "start", started_at: "2026-11-18T11:59:20Z", limit_s: 600 }, "40 of 600 s", "starting"],
  [{ phase: "start", started_at: "2026-11-18T11:59:20Z", limit_s: 600, step: "load" }, "40 of 600 s", "loading the model"],
])("of one that runs, its next replica with %j", (progress, text, words) => {
  const shown = progressOf({ state: "RUNNING", health_check: { timeout_s: 600 }, progress } as unknown as Container, NOW);
  expect([shown?.text, shown?.doing?.words]).toEqual([text, words]);
});

test("one that runs and has no replica on its way shows no progress", () => {
  expect(progressOf({ state: "RUNNING", progress: null } as unknown as Container, NOW)).toBe(null);
});
