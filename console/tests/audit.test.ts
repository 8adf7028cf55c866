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

test("what nobody gave a sentence or a detail is said all the same", () => {
  expect(said("berth.paint_over")).toBe("Berth paint over");
  expect(said("machine.drain", {}, "mch_1")).toBe("Began to drain a machine");
  expect(said("api_key.revoke", { name: "old", project_id: "prj_gone" })).toBe("Revoked the API key old in prj_gone");
});

test("whoever did it has a name", () => {
  expect(auditActor({ actor: "usr_1", actor_email: "mara@northwind.example" })).toBe("mara@northwind.example");
  expect(auditActor({ actor: "system", actor_email: null })).toBe("Moorage");
  expect(auditActor({ actor: "operator", actor_email: null })).toBe("The operator");
  expect(auditActor({ actor: "mch_1", actor_email: null })).toBe("mch_1");
});
