import { describe, expect, it } from "vitest";

import { isSearched, targetOf } from "@/frame/operatorTargets";
import { causesOf, verdictOf, working } from "@/pages/operator/causes";
import { gpusInUse, machineGpus, monthSoFar } from "@/pages/operator/home";
import { obstacleOf } from "@/pages/operator/payoutObstacle";
import type { Node, Part } from "@/pages/operator/queries";
import { about, lacking } from "@/pages/operator/setup";

type Gpus = Pick<Node, "gpus">;

function gpus(...models: [model: string, inUse: boolean][]): Gpus {
  return { gpus: models.map(([model, in_use]) => ({ model, in_use })) } as Gpus;
}

describe("the operator's checklist", () => {
  it("counts what is missing and what nobody could look at", () => {
    expect(lacking([{ state: "missing" }, { state: "missing" }, { state: "done" }])).toBe("2 missing");
    expect(lacking([{ state: "missing" }, { state: "unknown" }])).toBe("1 missing, 1 not known");
    expect(lacking([{ state: "unknown" }])).toBe("1 not known");
    expect(lacking([{ state: "done" }])).toBeNull();
  });

  it("knows a page of the handbook for every step, also for one it has never heard of", () => {
    expect(about({ name: "sign-in" }).label).toBe("Sign-in providers");
    expect(about({ name: "TLS" }).learn).toBe("/docs/tls");
    expect(about({ name: "weather" })).toEqual({ label: "weather", learn: "/docs/install" });
  });
});

describe("the operator's home", () => {
  it("counts GPUs by machine and in all", () => {
    const nodes = [gpus(["NVIDIA L40S", true], ["NVIDIA L40S", false]), gpus(["NVIDIA L4", true], ["NVIDIA T4", true]), gpus()];
    expect(machineGpus(nodes[0]!)).toEqual({ model: "L40S", used: 1, total: 2 });
    expect(machineGpus(nodes[1]!).model).toBe("mixed");
    expect(machineGpus(null)).toEqual({ model: "–", used: 0, total: 0 });
    expect(gpusInUse(nodes)).toEqual({ used: 3, total: 4 });
  });

  it("draws the whole month and asks for it up to today, in UTC", () => {
    const february = monthSoFar(new Date("2028-02-10T23:30:00-02:00"));
    expect(february.dates).toHaveLength(29);
    expect([february.first, february.last, february.name]).toEqual(["2028-02-01", "2028-02-11", "February"]);
    // Already the next month in UTC.
    expect(monthSoFar(new Date("2026-10-31T23:30:00-02:00")).first).toBe("2026-11-01");
  });
});

describe("health", () => {
  const part = (name: string, state: Part["state"], message: string, since: string | null = null): Part => ({
    name,
    state,
    message,
    since,
    what_to_do: state === "ok" ? null : "Do something.",
  });
  const parts = [
    part("database", "ok", "Answers."),
    part("reconciler mail", "failing", "Has never run."),
    part("backup", "unknown", "Has never run."),
    part("reconciler containers", "failing", "Has never run.", "2026-11-19T15:53:00Z"),
    part("engine rack-4", "failing", "The machine is lost."),
    part("disk", "warning", "3 % free."),
    part("gateway", "failing", "No gateway has ever reported."),
  ];

  it("says one cause once, the gravest first", () => {
    const causes = causesOf(parts);
    expect(causes.map((one) => one.title)).toEqual(["Gateway", "Engine of rack-4", "2 controller jobs", "Disk", "Backup", "Database"]);
    expect(causes[2]).toMatchObject({
      since: "2026-11-19T15:53:00Z",
      members: [
        { word: "sending of mail", name: "mail" },
        { word: "starting and stopping containers", name: "containers" },
      ],
    });
  });

  it("names what is worst", () => {
    expect(working(parts)).toBe("1 of 7 parts work");
    expect(verdictOf(parts)).toBe("4 of 7 parts fail: gateway, engine of rack-4, 2 controller jobs");
    const lesser = parts.filter((one) => one.state !== "failing");
    expect(verdictOf(lesser)).toBe("1 of 3 parts needs attention: disk");
    expect(verdictOf(lesser.filter((one) => one.state !== "warning"))).toBe("1 of 2 parts is not known: backup");
    expect(verdictOf([parts[0]!, part("tunnel", "ok", "Open.")])).toBe("All 2 parts work");
  });
});

describe("a payout", () => {
  const now = new Date("2026-11-19T15:53:00Z");
  const payout = { amount_microusd: 12_000_000, covered_microusd: 12_000_000, frozen_until: null };

  it("can be sent where it is covered and the account is not new", () => {
    expect(obstacleOf(payout, now)).toBeNull();
  });

  it("is on hold where the account was changed, and says the day and not only its weekday", () => {
    const held = obstacleOf({ ...payout, frozen_until: "2026-11-26T15:53:00Z" }, now);
    expect(held).toMatchObject({ word: "On hold", onHold: true });
    expect(held?.reason).toMatch(/before Thu 26 Nov 2026, \d\d:\d\d \(in 7 d 0 h\)/);
  });

  it("says what is left where some of it was taken back, and leaves the decision", () => {
    expect(obstacleOf({ ...payout, covered_microusd: 5_000_000 }, now)).toMatchObject({
      reason: "Only $5.00 is left: the rest was taken back.",
      onHold: false,
    });
  });
});

describe("the operator's search", () => {
  const of = { organization_id: "org_1", organization_name: "Northwind AI" };

  it("leads to whose it is", () => {
    expect(targetOf({ kind: "container", id: "ctr_1", name: "chat", ...of })).toEqual({
      label: "chat",
      kind: "Container of Northwind AI",
      open: { to: "/operator/organizations/org_1" },
    });
    expect(targetOf({ kind: "organization", id: "org_1", name: "Northwind AI", ...of }).kind).toBe("Organization");
    expect(targetOf({ kind: "machine", id: "mch_1", name: "gpu-04", ...of }).open).toEqual({ to: "/operator/machines" });
    const alone = { organization_id: null, organization_name: null };
    expect(targetOf({ kind: "user", id: "usr_1", name: "ada@example.com", ...alone })).toEqual({
      label: "ada@example.com",
      kind: "Person",
      open: { to: "/operator/users" },
    });
  });

  it("asks nobody for a single letter", () => {
    expect([isSearched("a"), isSearched("ab")]).toEqual([false, true]);
  });
});
