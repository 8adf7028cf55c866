/** What the first step says of a model, where no server is asked. */
import { expect, test } from "vitest";

import { foldingOf, whyNothingStarts } from "@/pages/create/start/folding";
import { footnote } from "@/pages/create/start/footnote";
import { mistakesOfStart } from "@/pages/create/start/mistakes";
import { whyNowhere } from "@/pages/create/start/nowhere";
import { ANEW, type Fit, FROM_A_MODEL, type ModelPlan, wantedFile } from "@/pages/create/start/origin";
import { withTitles } from "@/pages/create/start/titles";
import { EMPTY } from "@/containers/form/draft";

const L40S = { instance_type: "l40s-48gb", gpu_model: "L40S", infrastructure: "operator", fits: true, capacity: 0, longest_context_tokens: null } as Fit;
const H100 = { ...L40S, instance_type: "h100-80gb", gpu_model: "H100" };
const CPU = { ...L40S, instance_type: "cpu-large", gpu_model: null, fits: false, capacity: 4 };

/** Where nobody has what it fits on, or it fits on nothing. */
const planOf = (fits: Fit[], model = { kind: "chat", format: "safetensors" }): ModelPlan =>
  ({
    message: "It is 9.1 GB short.",
    model,
    instance_types: fits,
    instance_type: null,
    reason: fits.some((one) => one.fits && one.infrastructure === "operator") ? "no_machine_has_it" : "model_does_not_fit",
  }) as ModelPlan;

/** Where it waits on the first. */
const waitingPlanOf = (fits: Fit[], why: string): ModelPlan =>
  ({ ...planOf(fits), message: `It fits on ${fits[0]?.instance_type}, but ${why}`, instance_type: fits[0]?.instance_type, reason: null }) as ModelPlan;

test.each([
  ["no machine has the GPU", [L40S, CPU], "It fits on l40s-48gb, but no machine here offers that GPU. Choose a GGUF model, which runs without a GPU, or ask the operator."],
  ["several GPUs would do", [L40S, H100], "It fits on l40s-48gb and h100-80gb, but no machine here offers one of these GPUs. Choose a smaller model, or ask the operator."],
  ["the GPU is here, but not two of it", [L40S, { ...L40S, instance_type: "l40s-48gb-x1", fits: false, capacity: 2 }], "It fits on l40s-48gb, but no machine here offers that type. Choose a smaller model, or ask the operator."],
  ["a shorter context fits on what is here", [L40S, { ...CPU, longest_context_tokens: 4096 }], "It fits on l40s-48gb, but no machine here offers that GPU. A context of 4,096 tokens fits on cpu-large."],
  ["four would do", [L40S, H100, { ...L40S, instance_type: "a" }, { ...L40S, instance_type: "b" }], "It fits on l40s-48gb, h100-80gb, a and 1 more, but no machine here offers one of these GPUs. Choose a smaller model, or ask the operator."],
  ["it fits on nothing", [CPU], "It is 9.1 GB short."],
  ["it fits on others' machines alone", [{ ...L40S, infrastructure: "community" }, CPU], "It is 9.1 GB short."],
])("where %s, it says so", (_, fits, sentence) => {
  expect(whyNowhere(planOf(fits), "operator")).toBe(sentence);
});

test.each([
  ["all are in use", { ...L40S, capacity: 2 }, "all of it is in use. It starts as soon as there is room."],
  ["the machine that has it is silent", L40S, "the machines that could hold it do not answer. It starts as soon as one does."],
  ["the machine that has it is closed", L40S, "the machines that could hold it take no new replicas now. It starts as soon as one does. Or ask the operator."],
])("where %s, it says what the API knows", (_, fit, why) => {
  const plan = waitingPlanOf([fit, H100, CPU], why);
  expect(whyNowhere(plan, "operator")).toBe(`It fits on l40s-48gb, but ${why}`);
  expect(foldingOf(plan, "operator")).toEqual({ shown: [fit, CPU], folded: [H100], pointless: [] });
  expect(whyNothingStarts(plan)).toBe("no machine offers it now");
});

test("that no machine has it is said only where the API says so", () => {
  expect(whyNothingStarts(planOf([L40S, CPU]))).toBe("no machine here has it");
  expect(foldingOf(planOf([L40S, CPU]), "operator")).toEqual({ shown: [CPU], folded: [L40S], pointless: [] });
  expect(foldingOf(planOf([L40S, H100]), "operator")).toEqual({ shown: [L40S, H100], folded: [], pointless: [] });
});

test("until the API has answered for the machines that were just chosen, nothing is said", () => {
  const free = { ...L40S, capacity: 2, available: true };
  expect(whyNowhere({ ...planOf([free]), instance_type: free.instance_type, reason: null }, "community")).toBeNull();
});

test("what can be chosen comes first, and what the server cannot use is left out", () => {
  const [full, free] = [{ ...L40S, capacity: 2 }, { ...H100, capacity: 1, available: true }];
  const useless = { ...CPU, usable_bytes: null };
  expect(foldingOf(planOf([useless, full, free]), "operator")).toEqual({ shown: [free, full], folded: [], pointless: [useless] });
});

test("who has a GGUF model already is not told to take one", () => {
  const plan = planOf([L40S, CPU], { kind: "chat", format: "gguf" });
  expect(whyNowhere(plan, "operator")).toContain("Choose a smaller model, or ask the operator.");
});

test("what is reserved is said once, of what is shown", () => {
  const gpu = { gpu_model: "L40S", total_bytes: 100, usable_bytes: 93 };
  const machine = { gpu_model: null, total_bytes: 100, usable_bytes: 90 };
  expect(footnote([gpu, machine], 939_524_096)).toBe(
    "Reserved for the system: 7 % of a GPU's memory, 10 % of the RAM on types without a GPU. The context of a full-length request takes 0.94 GB. ",
  );
  expect(footnote([gpu], null)).toBe("Reserved for the system: 7 % of a GPU's memory. ");
  expect(footnote([], undefined)).toBe("");
});

test("a template that cannot serve it is called as its tile is", () => {
  const templates = [
    { name: "vllm", title: "vLLM" },
    { name: "tgi", title: "TGI" },
    { name: "llama-cpp", title: "llama.cpp" },
  ];
  const message = "tgi/vllm cannot be served by llama-cpp; choose vllm, tgi.";
  expect(withTitles({ reason: "template_does_not_serve", message }, templates)).toBe(
    "tgi/vllm cannot be served by llama.cpp; choose vLLM, TGI.",
  );
  expect(withTitles({ reason: "model_gated", message }, templates)).toBe(message);
});

test("the address of a file chooses it until another is chosen", () => {
  const model = "https://huggingface.co/a/b-GGUF/blob/main/b-q8_0.gguf";
  expect(wantedFile({ model, file: null })).toBe("b-q8_0.gguf");
  expect(wantedFile({ model, file: "Q4_K_M" })).toBe("Q4_K_M");
});

test("a wrong address is said before a wrong form", () => {
  const origin = { ...FROM_A_MODEL, ...ANEW, model: "https://ollama.com/library/llama3" };
  const asked = { plan: null, refusal: { reason: "not_a_model_address", message: "Not there." }, isAsking: false, again: () => {} };
  expect(mistakesOfStart({ draft: EMPTY, origin }, asked, null)).toEqual({ model: "Not there." });
});
