import { expect, test } from "vitest";

import { auditActor, auditSentence } from "@/components/auditSentence";

const NAMES: Record<string, string> = { prj_1: "production", usr_1: "ines@northwind.example" };
const nameOf = (id: string) => NAMES[id];

function said(action: string, details: Record<string, unknown> = {}, target = "org_1"): string {
  return auditSentence({ action, target, details }, nameOf);
}

test("a record is a sentence with names", () => {
  const key = { name: "load-test", project_id: "prj_1" };
  expect(said("api_key.create", { ...key, scope: "inference" })).toBe("Created the API key load-test in production");
  expect(said("api_key.create", { ...key, scope: "manage" })).toBe(
    "Created the API key load-test in production, which may manage containers",
  );
  expect(said("api_key.change", { ...key, disabled: true })).toBe("Disabled the API key load-test in production");
  expect(said("member.change", { role: "admin", role_before: "user" }, "usr_1")).toBe("Made ines@northwind.example an admin");
  expect(said("member.change", { role: "user", role_before: "user", project_ids: ["prj_1"] }, "usr_1")).toBe(
    "Changed the projects of ines@northwind.example to production",
  );
  expect(said("billing.credit", { amount_microusd: 200_000_000, reason: "A trial" })).toBe("Gave $200.00 of credit: A trial");
  expect(said("billing.top_up", { method: "bank_transfer", amount_microusd: 500_000_000 })).toBe(
    "Announced a bank transfer of $500.00",
  );
  expect(said("billing.spending_limit", { limit_microusd: null }, "prj_1")).toBe("Removed the monthly limit of production");
  expect(said("machine.join", { name: "attic-4090" }, "mch_1")).toBe("attic-4090 joined");
});

test("what was done to a container names it, also when it and its project are gone", () => {
  const chat = { name: "chat", project_id: "prj_1", project_name: "was called so" };
  const did = (action: string, more: Record<string, unknown> = {}) => said(action, { ...chat, ...more }, "ctr_1");
  expect(did("container.create", { image: "acme/chat:1" })).toBe("Created chat in production");
  expect(said("container.stop", { ...chat, project_id: "prj_gone", project_name: "trials" }, "ctr_gone")).toBe("Stopped chat in trials");
  expect(did("container.start")).toBe("Started chat in production");
  expect(did("container.restart", { avoided_nodes: [] })).toBe("Restarted chat in production");
  expect(did("container.restart", { avoided_nodes: ["rack-1"] })).toBe("Restarted chat in production on other machines");
  expect(did("container.delete")).toBe("Deleted chat in production");
  expect(did("container.edit", { fields: ["image", "resources.max_replicas"] })).toBe(
    "Changed the settings of chat in production: image, maximum replicas",
  );
  expect(did("container.edit", { fields: ["name"], name_before: "talk" })).toBe("Renamed talk to chat in production");
  expect(did("container.edit", { fields: ["env.MODEL", "name"], name_before: "talk" })).toBe(
    "Renamed talk to chat in production, and changed its settings: MODEL",
  );
  expect(did("container.fix", { field: "health_check.path", from: "/", to: "/health" })).toBe(
    "Applied the fix for chat in production: health path, / → /health",
  );
  expect(did("container.scale", { min_replicas: 1, max_replicas: 4 })).toBe("Scaled chat in production to between 1 and 4 replicas");
  expect(did("container.scale", { min_replicas: 1, max_replicas: 1 })).toBe("Scaled chat in production to 1 replica");
  expect(did("container.scale", { min_replicas: 0, max_replicas: 1 })).toBe("Scaled chat in production to between 0 and 1 replicas");
  expect(did("container.scale", { min_replicas: 3, max_replicas: 3 })).toBe("Scaled chat in production to 3 replicas");
  expect(did("container.scale", { max_replicas: 4 })).toBe("Scaled chat in production to at most 4 replicas");
  expect(did("container.scale", { max_replicas: 1 })).toBe("Scaled chat in production to at most 1 replica");
  expect(did("container.scale", { min_replicas: 1 })).toBe("Scaled chat in production to at least 1 replica");
  expect(did("container.scale", { min_replicas: 0 })).toBe("Scaled chat in production to at least 0 replicas");
  expect(did("container.scale", { target_concurrency: 8 })).toBe("Changed how chat in production scales");
  expect(did("container.draft_save", { fields: ["image"] })).toBe("Staged changes to chat in production: image");
  expect(did("container.draft_discard")).toBe("Discarded the staged changes to chat in production");
  expect(did("container.draft_apply", { fields: ["image"], strategy: "canary", share: 10 })).toBe(
    "Applied the staged changes to chat in production, to 10 % of the requests first: image",
  );
  expect(did("container.rollback", { version: 3 })).toBe("Rolled chat in production back to version 3");
  expect(did("container.canary", { share: 25 })).toBe("Gave the canary of chat in production 25 % of the requests");
  expect(did("container.canary_promote")).toBe("Promoted the canary of chat in production");
  expect(did("container.canary_abort")).toBe("Aborted the canary of chat in production");
  expect(did("container.wake")).toBe("Woke chat in production");
  expect(did("container.doctor")).toBe("Tested the network of chat in production");
  expect(did("container.accept_exposure")).toBe("Accepted that the owner of its machine can read what runs in chat in production");
  expect(did("cache.delete", { node: "rack-1" })).toBe("Deleted the cache of chat in production on rack-1");
  expect(did("replica_limit.requested", { replicas: 40 })).toBe("Asked for 40 replicas of chat in production");
  expect(did("replica_limit.approved", { replicas: 1 })).toBe("Allowed 1 replica of chat in production");
  expect(said("replica_limit.requested", { replicas: 40, project_id: "prj_1" }, "prj_1")).toBe("Asked for 40 replicas in production");
  expect(did("replica_limit.approved", { replicas: 40 })).toBe("Allowed 40 replicas of chat in production");
  expect(did("replica_limit.refused", { replicas: 40, message: "No room before May" })).toBe(
    "Refused 40 replicas of chat in production: No room before May",
  );
  expect(did("replica_limit.withdrawn", { replicas: 40 })).toBe("Withdrew the request for 40 replicas of chat in production");
  // Recorded by an earlier version, about a container that is gone.
  expect(said("container.accept_exposure", { infrastructure: "any" }, "ctr_1")).toBe(
    "Accepted that the owner of its machine can read what runs in a container",
  );
});

test("what nobody gave a sentence or a detail is said all the same", () => {
  expect(said("berth.paint_over")).toBe("Berth paint over");
  expect(said("machine.drain", {}, "mch_1")).toBe("Began to drain mch_1");
  expect(said("api_key.revoke", { name: "old", project_id: "prj_gone" })).toBe("Revoked the API key old in prj_gone");
});

test("a sentence alleges nothing that the record does not say", () => {
  expect(said("billing.spending_limit", { limit_microusd: 120_000_000 }, "prj_gone")).toBe("Set the monthly limit of prj_gone to $120.00");
  expect(said("billing.spending_limit", {}, "org_1")).toBe("Removed the monthly limit of the organization");
  expect(said("member.change", { role: "user", role_before: "user", project_ids: null }, "usr_9")).toBe("Left the role of usr_9 as it was");
  expect(said("member.change", { role: "user", role_before: "user", project_ids: [] }, "usr_9")).toBe("Changed the projects of usr_9 to none");
  // All that was sent, as an earlier version recorded it.
  expect(said("api_key.change", { name: "ci", disabled: false, expires_at: null, requests_per_minute: 7 })).toBe("Changed the API key ci");
  expect(said("api_key.change", { name: "ci", disabled: false })).toBe("Enabled the API key ci");
});

test.each([
  [{ name_before: "old" }, "Renamed the API key old to ci in production"],
  [{ name_before: "old", disabled: true }, "Renamed the API key old to ci in production, and disabled it"],
  [{ name_before: "old", disabled: false }, "Renamed the API key old to ci in production, and enabled it"],
  [{ name_before: "old", expires_at: null }, "Renamed the API key old to ci in production, and changed its expiry"],
  [
    { name_before: "old", disabled: true, expires_at: null, requests_per_minute: 7 },
    "Renamed the API key old to ci in production, disabled it, and changed its rate limit and its expiry",
  ],
  [{ disabled: true, expires_at: null }, "Disabled the API key ci in production, and changed its expiry"],
  [{ disabled: false, requests_per_minute: null }, "Enabled the API key ci in production, and changed its rate limit"],
  [{ expires_at: null }, "Changed the expiry of the API key ci in production"],
  [{ expires_at: "2027-01-01T00:00:00Z", requests_per_minute: 7 }, "Changed the rate limit and the expiry of the API key ci in production"],
  [{}, "Changed the API key ci in production"],
])("of a key whose record has %j, every change is said", (changes, sentence) => {
  expect(said("api_key.change", { name: "ci", project_id: "prj_1", ...changes })).toBe(sentence);
});

test("whoever did it has a name", () => {
  expect(auditActor({ actor: "usr_1", actor_email: "mara@northwind.example", actor_name: null })).toBe("mara@northwind.example");
  expect(auditActor({ actor: "system", actor_email: null, actor_name: null })).toBe("Moorage");
  expect(auditActor({ actor: "operator", actor_email: null, actor_name: null })).toBe("The operator");
  expect(auditActor({ actor: "key_1", actor_email: null, actor_name: "ci" })).toBe("API key ci");
  expect(auditActor({ actor: "mch_1", actor_email: null, actor_name: null })).toBe("mch_1");
});
