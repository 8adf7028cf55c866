/** A container's settings on their way from the form to the API and back. */
import { expect, test } from "vitest";

import type { Container } from "@/api/queries";
import { fieldName } from "@/components/fieldNames";
import { type Draft, EMPTY, fromContainer, mistakes, stepOf, toCreate, toPatch, type Variable } from "@/containers/form/draft";
import { merged, parseEnvFile } from "@/containers/form/envFile";
import { FROM_A_MODEL, OWN_IMAGE } from "@/pages/create/start/origin";
import { reachable } from "@/pages/create/steps";
import { hasEdits, keepEdits, rebased, withKeptEdits } from "@/pages/settings/keptEdits";
import { changesIn, withChanges } from "@/pages/settings/staged";

const DRAFT: Draft = { ...EMPTY, name: " chat ", image: "acme/chat:1", instanceType: "cpu-nano" };

const CONTAINER = {
  name: "chat",
  category: null,
  image: "acme/chat:1",
  registry: { provider: "docker-hub", username: "acme", has_password: true },
  resources: { mode: "autoscaling", instance_type: "cpu-nano", min_replicas: 1, max_replicas: 4, target_concurrency: 4, scale_down_delay_s: 300 },
  start_command: null,
  port: 8080,
  health_check: { path: "/health", timeout_s: 300 },
  api_path: "/api/v1",
  sleep_after_s: null,
  cache: { size_gib: 40 },
  infrastructure: "operator",
  env: { HF_TOKEN: null, LOG_LEVEL: null },
  plain_env: { WORKERS: "2" },
} as unknown as Container;

test("what was not written is not sent as something", () => {
  expect(toCreate(DRAFT)).toMatchObject({
    name: "chat",
    category: null,
    start_command: null,
    port: null,
    health_check: { path: null, timeout_s: 300 },
    resources: { mode: "general", instance_type: "cpu-nano" },
    registry: { provider: "docker-hub" },
    cache: null,
    env: {},
    plain_env: {},
  });
});

test("a form that nobody touched changes nothing", () => {
  expect(toPatch(fromContainer(CONTAINER), CONTAINER)).toEqual({});
});

test("only what differs is sent", () => {
  const draft = { ...fromContainer(CONTAINER), port: 9090, max: 6 };
  expect(toPatch(draft, CONTAINER)).toEqual({ port: 9090, resources: { ...CONTAINER.resources, max_replicas: 6 } });
});

test("a cache is sent with its size, and as nothing where it is taken away", () => {
  expect(toCreate({ ...DRAFT, cacheGib: 22 }).cache).toEqual({ size_gib: 22 });
  expect(toPatch({ ...fromContainer(CONTAINER), cacheGib: 60 }, CONTAINER)).toEqual({ cache: { size_gib: 60 } });
  expect(toPatch({ ...fromContainer(CONTAINER), cacheGib: null }, CONTAINER)).toEqual({ cache: null });
});

test("a staged draft is gone on with as it was staged", () => {
  const changes = [
    { field: "cache.size_gib", from: 40, to: null },
    { field: "sleep_after_s", from: null, to: 600 },
    { field: "api_path", from: "/api/v1", to: "/v1" },
    { field: "port", from: 8080, to: null },
  ];
  const form = withChanges(fromContainer(CONTAINER), changes);
  expect(toPatch(form, CONTAINER)).toEqual({ cache: null, sleep_after_s: 600, api_path: "/v1", port: null });
  expect(fieldName("cache.size_gib")).toBe("Cache, GiB");
});

test("variables are kept, written anew or removed, each by its name", () => {
  const env = [{ name: "LOG_LEVEL", value: "debug" }, { name: "NEW", value: "" }, { name: "WORKERS", value: "2", plain: true }];
  expect(toPatch({ ...fromContainer(CONTAINER), env }, CONTAINER)).toEqual({ env: { HF_TOKEN: null, LOG_LEVEL: "debug", NEW: "" } });
});

test("a variable is a secret or plain, and may become the other", () => {
  const [token, level, workers] = fromContainer(CONTAINER).env as [Variable, Variable, Variable];
  expect(workers).toEqual({ name: "WORKERS", value: "2", plain: true });
  const patched = (env: Variable[]) => toPatch({ ...fromContainer(CONTAINER), env }, CONTAINER);
  expect(patched([token, level, { ...workers, value: "4" }])).toEqual({ plain_env: { WORKERS: "4" } });
  expect(patched([token, level])).toEqual({ plain_env: { WORKERS: null } });
  expect(patched([token, level, { ...workers, plain: false }])).toEqual({ env: { WORKERS: "2" } });
  expect(patched([token, { name: "LOG_LEVEL", value: "info", plain: true }, workers])).toEqual({ plain_env: { LOG_LEVEL: "info" } });
  expect(toCreate({ ...DRAFT, env: [{ name: "A", value: "1", plain: true }, { name: "B", value: "2" }] })).toMatchObject({
    env: { B: "2" },
    plain_env: { A: "1" },
  });
});

test("plain variables of a staged draft are there with their values", () => {
  const changes = [
    { field: "plain_env.WORKERS", from: "2", to: "4" },
    { field: "env.LOG_LEVEL", from: "***", to: null },
    { field: "plain_env.LOG_LEVEL", from: null, to: "info" },
    { field: "env.HF_TOKEN", from: "***", to: null },
  ];
  const form = withChanges(fromContainer(CONTAINER), changes);
  expect(form.env).toEqual([
    { name: "WORKERS", value: "4", plain: true },
    { name: "LOG_LEVEL", value: "info", plain: true },
  ]);
  expect(toPatch(form, CONTAINER)).toEqual({ env: { HF_TOKEN: null }, plain_env: { WORKERS: "4", LOG_LEVEL: "info" } });
  expect(changesIn(toPatch(form, CONTAINER))).toBe("3 changes");
  expect(fieldName("plain_env.LOG_LEVEL")).toBe("LOG_LEVEL");
});

test("credentials that stay are not sent, and new ones whole", () => {
  const draft = { ...fromContainer(CONTAINER), provider: "github" as const };
  expect(toPatch({ ...draft, password: "new" }, CONTAINER).registry).toEqual({ provider: "github", username: "acme", password: "new" });
  expect(toPatch({ ...draft, provider: "docker-hub" }, CONTAINER).registry).toBeUndefined();
});

test.each([
  ["base", { name: " " }, ["name"]],
  ["base", { image: "" }, ["image"]],
  ["base", { isPrivate: true, username: "" }, ["registry.username"]],
  ["resources", { instanceType: "" }, ["resources.instance_type"]],
  ["resources", { mode: "autoscaling", min: 3, max: 2 }, ["resources.max_replicas"]],
  ["resources", { infrastructure: "any" }, ["accept_exposure"]],
  ["resources", { infrastructure: "community", acceptExposure: true }, []],
  ["advanced", { healthPath: "health" }, ["health_check.path"]],
  ["advanced", { env: [{ name: "A", value: "" }, { name: "A", value: "" }] }, ["env"]],
  ["base", {}, []],
] as const)("at the step %s with %j", (step, changes, fields) => {
  expect(Object.keys(mistakes({ ...DRAFT, ...changes } as Draft, step))).toEqual(fields);
});

test.each([
  ["resources.max_replicas", "resources"],
  ["health_check.path", "advanced"],
  ["env.HF_TOKEN", "advanced"],
  ["cache", "advanced"],
  ["cache.size_gib", "advanced"],
  ["image", "base"],
])("an error of %s opens the step %s", (field, step) => {
  expect(stepOf(field)).toBe(step);
});

test("a .env file as people write them", () => {
  const text = ["# comment", "", "A=1", 'export B="two\\nlines" # why', "C='as $is'", "D = spaced # comment", "no line"].join("\n");
  expect(parseEnvFile(text)).toEqual([
    { name: "A", value: "1" },
    { name: "B", value: "two\nlines" },
    { name: "C", value: "as $is" },
    { name: "D", value: "spaced" },
  ]);
  expect(merged([{ name: "A", value: null }, { name: "B", value: null }], [{ name: "A", value: "1" }])).toEqual([
    { name: "A", value: "1" },
    { name: "B", value: null },
  ]);
});

test("an address leads no further than to the first step that is not done", () => {
  const kept = { draft: { ...EMPTY, image: "acme/chat:1", name: "chat", instanceType: "cpu-nano" }, origin: OWN_IMAGE };
  expect(reachable("review", "start", kept)).toBe("review");
  expect(reachable(undefined, "base", kept)).toBe("base");
  expect(reachable("no such step", "base", kept)).toBe("base");
  expect(reachable("review", "start", { ...kept, draft: { ...kept.draft, instanceType: "" } })).toBe("resources");
  expect(reachable("review", "start", { ...kept, draft: { ...kept.draft, name: "" } })).toBe("base");
  expect(reachable("base", "start", { ...kept, draft: { ...kept.draft, name: "" } })).toBe("base");
  expect(reachable("resources", "start", { ...kept, origin: FROM_A_MODEL })).toBe("start");
});

test("edits that were left are laid over what the settings are by now", () => {
  const before = { ...EMPTY, name: "chat", port: 8000, env: [{ name: "A", value: null }] };
  const edited = { ...before, port: 9000 };
  const now = { ...before, name: "talk", env: [] };
  expect(rebased(before, edited, now)).toEqual({ ...now, port: 9000 });
  keepEdits("ctr_1", before, edited);
  expect(withKeptEdits("ctr_1", now).port).toBe(9000);
  expect(withKeptEdits("ctr_2", now)).toBe(now);
  keepEdits("ctr_1", before, before);
  expect(hasEdits("ctr_1")).toBe(false);
  expect(changesIn({ port: 9000, env: { A: null, B: "x" } })).toBe("3 changes");
  expect(changesIn({ port: 9000 })).toBe("1 change");
});
