/** Sentences that are put together from what the API says. */
import { expect, test } from "vitest";

import { pageName, titleOf } from "@/addresses/titles";
import type { InstanceType } from "@/api/queries";
import { marked } from "@/components/ansi";
import { sentenceFor } from "@/containers/activities";
import { fixInWords } from "@/containers/fixWords";
import { LAST_HOUR, searchOfSpan, spanIn } from "@/containers/metrics/range";
import type { Activity } from "@/containers/queries";
import { requestsIn } from "@/containers/traffic";
import { found, type Target } from "@/frame/found";
import { grouped } from "@/pages/billing/groups";
import type { Entry } from "@/pages/billing/queries";
import { instructionLines } from "@/pages/billing/transferLines";
import { lasting } from "@/pages/create/lasting";
import { filterIn, healthCheckText, searchOf } from "@/pages/logs/filter";
import { standingOf, subjectOf } from "@/pages/webhooks/delivery";
import type { Delivery } from "@/pages/webhooks/queries";

const TYPES = [
  { name: "cpu-nano", price_per_hour_microusd: 5_000 },
  { name: "cpu-small", price_per_hour_microusd: 10_000 },
] as InstanceType[];

test.each([
  ["resources.instance_type", "cpu-nano", "cpu-small", "a larger instance type, $0.005 → $0.01 per hour"],
  ["resources.instance_type", "cpu-nano", "gone", "a larger instance type"],
  ["port", 8080, 8000, "change the port"],
  ["health_check.timeout_s", 300, 600, "change the health timeout"],
])("the fix of %s from %s to %s", (field, from, to, words) => {
  expect(fixInWords({ field, from, to }, TYPES)).toBe(words);
});

const activity = (kind: string, details: object, message: string | null = null): Activity =>
  ({ kind, details, message }) as unknown as Activity;

test("an activity says what happened, then why", () => {
  const scaled = activity("container.autoscale", { from: 1, to: 5 }, "12.0 in flight + headroom 6.0 = 18.0, ÷ 4 → 5 replicas.");
  expect(sentenceFor(scaled)).toMatchObject({ what: "Scaled 1 → 5", detail: scaled.message });
  expect(sentenceFor(activity("container.state", { to: "RUNNING" }))).toEqual({ what: "Running", detail: "", tone: "ok" });
  expect(sentenceFor(activity("container.edit", { fields: ["image", "start_command", "env.TOKEN"] })).detail).toBe("Image, start command, TOKEN");
  const removed = activity("cache.delete", { node: "machine-1", size_bytes: 15 });
  expect(sentenceFor(removed)).toMatchObject({ what: "Deletion of a cache asked for", detail: "on machine-1" });
  expect(sentenceFor(activity("container.of_tomorrow", {})).what).toBe("of tomorrow");
});

test.each([
  ["/", "Moorage"],
  ["/login", "Sign in · Moorage"],
  ["/organizations/o", "Organization · Moorage"],
  ["/organizations/o/billing", "Billing · Moorage"],
  ["/operator/outbox", "Outbox · Operator · Moorage"],
  ["/projects/p/containers", "Service · production · Moorage"],
  ["/projects/p/create", "Create container · production · Moorage"],
  ["/projects/p/containers/c", "chat · production · Moorage"],
  ["/projects/p/containers/c/logs", "Logs · chat · production · Moorage"],
  ["/projects/p/containers/c/requests/req_1", "Request · chat · production · Moorage"],
])("the title at %s", (pathname, title) => {
  const { page, containerId, projectId } = pageName(pathname);
  expect(titleOf(page, containerId && "chat", projectId && "production")).toBe(title);
});

test("the palette finds by words, in any order, and what begins so first", () => {
  const targets: Target[] = ["Overview of chat", "Logs of chat", "chat", "Stop chat", "Logs of eval"].map((label) => ({
    label,
    kind: "",
    open: { to: label },
    whenAsked: label.endsWith("eval"),
  }));
  const labels = (text: string) => found(targets, text).map((one) => one.label);
  expect(labels("")).toEqual(["Overview of chat", "Logs of chat", "chat", "Stop chat"]);
  expect(labels("chat logs")).toEqual(["Logs of chat"]);
  expect(labels("logs")).toEqual(["Logs of chat", "Logs of eval"]);
  expect(labels(" CHAT")[0]).toBe("chat");
  expect(labels("nothing")).toEqual([]);
});

test("how many requests came, of rates in steps", () => {
  expect(requestsIn({ stepS: 10, series: { request_rate: [null, 1.5, 2.5] } })).toBe(40);
  expect(requestsIn({ stepS: 10, series: { request_rate: [0.001] } })).toBe(1);
  expect(requestsIn({ stepS: 10, series: { request_rate: [0, null] } })).toBe(0);
  expect(requestsIn({ stepS: 10, series: {} })).toBe(0);
});

test("hours of a container and a day are one line, with the balance after the newest", () => {
  const hour = (id: string, at: string, container: string, balance: number) =>
    ({ id, at, kind: "usage", amount_microusd: -5, description: "One hour of cpu-nano, replica slot 0", details: { container_id: container, instance_type: "cpu-nano" }, project_name: "production", container_name: container, balance_after_microusd: balance }) as unknown as Entry;
  const paid = { id: "t", at: "2026-03-01T12:30", kind: "card_top_up", amount_microusd: 50, description: "Top-up by card", details: {}, project_name: null, container_name: null, balance_after_microusd: 60 } as unknown as Entry;
  const entries = [hour("d", "2026-03-01T14:00", "chat", 50), hour("c", "2026-03-01T13:00", "eval", 55), paid, hour("b", "2026-03-01T12:00", "chat", 10), hour("a", "2026-02-28T23:00", "chat", 15)];
  expect(grouped(entries, (iso) => iso.slice(0, 10)).map(({ words, amount, balance }) => [words, amount, balance])).toEqual([
    ["chat: 2 hours of cpu-nano", -10, 50],
    ["eval: 1 hour of cpu-nano", -5, 55],
    ["Top-up by card", 50, 60],
    ["chat: 1 hour of cpu-nano", -5, 15],
  ]);
});

test("of each line of a bank account, what a bank's form takes is copied", () => {
  const text = "Moorage at the Example Bank\nIBAN XX00 1234\n\nBIC: EXAMPLEX\nIbanez & Sons";
  expect(instructionLines(text).map((one) => one.value)).toEqual([
    "Moorage at the Example Bank",
    "XX00 1234",
    "EXAMPLEX",
    "Ibanez & Sons",
  ]);
});

test.each([
  ["IBAN: XX00 1234", "XX00 1234"],
  ["iban:XX00 1234", "XX00 1234"],
  ["BIC DEUTDEFF", "DEUTDEFF"],
  ["BIC/SWIFT DEUTDEFF", "DEUTDEFF"],
  ["BIC/SWIFT: DEUTDEFF", "DEUTDEFF"],
  ["SWIFT code DEUTDEFF", "DEUTDEFF"],
  ["BIC (SWIFT) DEUTDEFF", "DEUTDEFF"],
  ["https://bank.example/a", "https://bank.example/a"],
  ["Pay at: https://bank.example/a", "https://bank.example/a"],
  ["BIC", "BIC"],
])("of %j, %j is copied", (line, value) => {
  expect(instructionLines(line)).toEqual([{ line, value }]);
});

const NOON = new Date("2026-11-19T12:00:00");

test.each([
  [{ delivered_at: "2026-11-19T11:59:00", status: 204 }, "Delivered", "Answered 204"],
  [{ next_try_at: "2026-11-19T12:00:05", tries: 0 }, "On its way", "Next try 12:00:05"],
  [{ next_try_at: "2026-11-20T09:00:00", tries: 3, status: 500 }, "Tries again", "Answered 500, next try 20 Nov 09:00:00"],
  [{ next_try_at: "2026-11-19T11:56:00", tries: 0 }, "Overdue", "Due 4 min ago"],
  [{ tries: 10, error: "No answer within 10 s." }, "Given up", "No answer within 10 s."],
])("a delivery %o: %s", (facts, word, response) => {
  const delivery = { delivered_at: null, next_try_at: null, tries: 1, status: null, error: null, ...facts } as unknown as Delivery;
  expect(standingOf(delivery, NOON)).toMatchObject({ word, response });
});

test("what an event is about", () => {
  const about = (data: object) => subjectOf({ payload: { data } } as unknown as Delivery, (id) => (id === "ctr_1" ? "chat" : undefined));
  expect(about({ container_id: "ctr_1", details: { from: "RUNNING", to: "FAILED" } })).toBe("chat: Running → Failed");
  expect(about({ container_id: "ctr_2", details: {} })).toBe("ctr_2");
  expect(about({ amount_microusd: 20_000_000, kind: "card_top_up" })).toBe("+$20.00, card top up");
  expect(about({ target: "inv_1", details: { email: "ines@example.com" } })).toBe("ines@example.com");
  expect(about({ container_id: "ctr_1", details: { from: null, to: "PENDING" } })).toBe("chat: Pending");
  expect(subjectOf({ payload: { organization_id: "org_1", data: { target: "org_1" } } } as unknown as Delivery, () => undefined)).toBe("");
  expect(about({})).toBe("");
});

test("how long the balance lasts: without the new container, with its least, with its most", () => {
  const hour = 3_600_000;
  const spending = { balance: 100, others: 10, runsOut: null, each: 10, min: 1, max: 4 };
  expect(lasting(spending, 0)).toEqual([
    { words: "Today's containers only", count: 0, until: 10 * hour, fraction: 1 },
    { words: "With this one, 1 replica", count: 1, until: 5 * hour, fraction: 0.5 },
    { words: "With this one, 4 replicas", count: 4, until: 2 * hour, fraction: 0.2 },
  ]);
  const known = lasting({ ...spending, runsOut: 12 * hour, max: 1 }, 0);
  expect(known.map((one) => one.until)).toEqual([12 * hour, 6 * hour]);
  expect(lasting({ ...spending, others: 0, max: 1 }, 0).map((one) => one.until)).toEqual([null, 10 * hour]);
});

test("a filter of the log and its address say the same", () => {
  const filter = filterIn({ text: "time out", exclude: "/health", range: "6h", stream: "stderr" }, 5);
  expect(filter).toMatchObject({ text: "time out", exclude: "/health", range: "6h", stream: "stderr", chosenAt: 5, ended: false });
  expect(filterIn(searchOf(filter), 5)).toEqual(filter);
  expect(searchOf(filterIn({ range: "9y", stream: "x", instance: "<b>" }, 0))).toEqual({});
  const around = filterIn({ instance: `rep_${"a".repeat(20)}`, until: "2026-03-01T10:00:00Z" }, 5);
  expect(around).toMatchObject({ range: "15m", ended: true, chosenAt: Date.UTC(2026, 2, 1, 10) });
  expect(filterIn(searchOf(around), 7)).toEqual(around);
});

test.each([
  ["/health", "GET /health"],
  ["/", null],
  ["", null],
  [null, null],
])("lines about health checks of %s are those with %s", (path, text) => {
  expect(healthCheckText(path)).toBe(text);
});

test("what is looked for is marked, also where its colour changes", () => {
  const parts = [{ text: "GET /he", color: 1 }, { text: "alth (200)" }];
  expect(marked(parts, "/HEALTH (")).toEqual([
    { text: "GET ", color: 1 },
    { text: "/he", color: 1, marked: true },
    { text: "alth (", marked: true },
    { text: "200)" },
  ]);
  expect(marked(parts, "")).toBe(parts);
  expect(marked(parts, "nowhere")).toBe(parts);
});

test("the charts' range and its address say the same", () => {
  expect(spanIn({})).toEqual(LAST_HOUR);
  expect(spanIn({ seconds: "yes" })).toEqual(LAST_HOUR);
  const past = { seconds: 900, until: Date.UTC(2026, 2, 1) };
  expect(spanIn(searchOfSpan(past))).toEqual(past);
  expect(searchOfSpan(LAST_HOUR)).toEqual({});
});
