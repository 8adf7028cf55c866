import { describe, expect, it } from "vitest";

import { isSearched, targetOf } from "@/frame/operatorTargets";
import { gpusInUse, machineGpus, monthSoFar, notable } from "@/pages/operator/home";
import type { Node } from "@/pages/operator/queries";
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

  it("shows the worst parts first and keeps their order otherwise", () => {
    const parts = (["ok", "unknown", "failing", "ok", "warning"] as const).map((state, index) => ({ state, index }));
    expect(notable(parts, 4).map((one) => one.index)).toEqual([2, 4, 1, 0]);
  });

  it("draws the whole month and asks for it up to today, in UTC", () => {
    const february = monthSoFar(new Date("2028-02-10T23:30:00-02:00"));
    expect(february.dates).toHaveLength(29);
    expect([february.first, february.last, february.name]).toEqual(["2028-02-01", "2028-02-11", "February"]);
    // Already the next month in UTC.
    expect(monthSoFar(new Date("2026-10-31T23:30:00-02:00")).first).toBe("2026-11-01");
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
