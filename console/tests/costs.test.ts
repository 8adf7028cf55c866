import { describe, expect, it } from "vitest";

import { type CostOfRequests, perRequest, rowsOf, summary } from "@/pages/overview/costs";

const COST: CostOfRequests = {
  from_time: "2026-03-10T12:00:00Z",
  to_time: "2026-03-11T12:00:00Z",
  hours: 3,
  spent_microusd: 4_500_000,
  idle_hours: 1,
  idle_microusd: 500_000,
  requests: 300,
  per_request_microusd: 15_000,
  keys: [
    { key_id: "key_a", name: "app", hint: "abcd", requests: 200, cost_microusd: 3_000_000 },
    { key_id: "key_b", name: null, hint: null, requests: 90, cost_microusd: 900_000 },
    { key_id: null, name: null, hint: null, requests: 10, cost_microusd: 100_000 },
  ],
};

describe("what requests cost", () => {
  it("adds up to what was spent, idle hours last", () => {
    const rows = rowsOf(COST);
    expect(rows.map((row) => row.name)).toEqual(["app", "A key that is gone (key_b)", "Requests without a recorded key", "1 hour without a request"]);
    expect(rows.reduce((sum, row) => sum + row.microusd, 0)).toBe(COST.spent_microusd);
    expect(rowsOf({ ...COST, idle_hours: 0, idle_microusd: 0 })).toHaveLength(3);
  });

  it("says what one request cost, with what idle hours cost", () => {
    expect(summary(COST)).toBe("$4.50 for 3 hours, $0.015 a request, idle hours included");
    expect(summary({ ...COST, requests: 0, keys: [], hours: 1 })).toBe("$4.50 for 1 hour");
  });

  it("never calls a small price nothing", () => {
    expect(perRequest(10, 1000)).toBe("under $0.0001");
    expect(perRequest(20_000, 2)).toBe("$0.01");
    expect(perRequest(0, 5)).toBe("$0.00");
  });
});
