/** What is asked for once more after its answer was lost has the same key, and nothing else has. */
import { expect, test } from "vitest";

import { keyFor, makesSomething, settled } from "@/api/attempts";

const NOW = 1_000_000;

test("the same thing has the same key until it was answered", () => {
  const key = keyFor("one", NOW);
  expect(key).toMatch(/^[0-9a-f]{32}$/);
  expect(keyFor("one", NOW + 1_000)).toBe(key);
  expect(keyFor("one, but another", NOW)).not.toBe(key);
  settled(key, 201, "");
  expect(keyFor("one", NOW + 2_000)).not.toBe(key);
});

test("a refusal is an answer, a server that fails or is still at it is none", () => {
  const key = keyFor("two", NOW);
  settled(key, 503, "unavailable");
  settled(key, 409, "idempotency_key_in_use");
  settled(null, 200, "");
  expect(keyFor("two", NOW)).toBe(key);
  settled(key, 422, "invalid_input");
  expect(keyFor("two", NOW)).not.toBe(key);
});

test("a minute later the same press means it anew", () => {
  const key = keyFor("three", NOW);
  expect(keyFor("three", NOW + 60_000)).toBe(key);
  expect(keyFor("three", NOW + 60_001)).not.toBe(key);
});

test("what only reads needs none", () => {
  expect(makesSomething("POST", "http://it/api/v1/projects/prj_1/containers")).toBe(true);
  expect(makesSomething("POST", "http://it/api/v1/projects/prj_1/models/resolve")).toBe(false);
  expect(makesSomething("DELETE", "http://it/api/v1/containers/ctr_1")).toBe(false);
});
