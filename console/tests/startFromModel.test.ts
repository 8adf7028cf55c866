/** What the first step says of a model, where no server is asked. */
import { expect, test } from "vitest";

import { mistakesOfStart } from "@/pages/create/start/mistakes";
import { ANEW, FROM_A_MODEL, wantedFile } from "@/pages/create/start/origin";
import { EMPTY } from "@/containers/form/draft";

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
