/** What people write and paste where a model is asked for. */
import { expect, test } from "vitest";

import { mistakenModel, namedModel } from "@/pages/create/start/modelId";

const QWEN = "hf:Qwen/Qwen2.5-7B-Instruct";

test.each([
  ["Qwen/Qwen2.5-7B-Instruct", QWEN],
  ["  hf:Qwen/Qwen2.5-7B-Instruct ", QWEN],
  ["HF:Qwen/Qwen2.5-7B-Instruct/", QWEN],
  ["hf://Qwen/Qwen2.5-7B-Instruct", QWEN],
  ["hf:Qwen/Qwen2.5-7B-Instruct@main", QWEN],
  ["hf:Qwen/Qwen2.5-7B-Instruct@v1.0", `${QWEN}@v1.0`],
  ["hf:Qwen/Qwen2.5-7B-Instruct@refs/pr/1", `${QWEN}@refs/pr/1`],
  ["https://huggingface.co/Qwen/Qwen2.5-7B-Instruct", QWEN],
  ["https://huggingface.co/Qwen/Qwen2.5-7B-Instruct/?library=vllm#usage", QWEN],
  ["https://huggingface.co/Qwen/Qwen2.5-7B-Instruct/tree/main", QWEN],
  ["https://huggingface.co/Qwen/Qwen2.5-7B-Instruct/tree/v1.0/", `${QWEN}@v1.0`],
  ["https://huggingface.co/Qwen/Qwen2.5-7B-Instruct/tree/refs%2Fpr%2F1", `${QWEN}@refs/pr/1`],
  ["https://huggingface.co/Qwen/Qwen2.5-7B-Instruct/tree/refs/pr/1", `${QWEN}@refs/pr/1`],
  ["https://huggingface.co/Qwen/Qwen2.5-7B-Instruct/blob/main/config.json", QWEN],
  ["https://huggingface.co/Qwen/Qwen2.5-7B-Instruct/discussions/3", QWEN],
  ["HTTP://www.HuggingFace.co/Qwen/Qwen2.5-7B-Instruct", QWEN],
  ["huggingface.co/Qwen/Qwen2.5-7B-Instruct", QWEN],
  ["hf.co/Qwen/Qwen2.5-7B-Instruct/tree/main", QWEN],
  ["Qwen/Qwen2.5-7B-Instruct/tree/main", QWEN],
  ["huggingface.co/Qwen/Qwen2.5-7B-Instruct@v1.0", `${QWEN}@v1.0`],
  ["https://huggingface.co/Qwen/Qwen2.5-7B-Instruct/commit/a09a3545", `${QWEN}@a09a3545`],
  // What a mirror is called, only the API knows.
  ["https://hub.example.com:8443/Qwen/Qwen2.5-7B-Instruct", QWEN],
  ["https://hf-mirror.com/Qwen/Qwen2.5-7B-Instruct/tree/v1.0", `${QWEN}@v1.0`],
  ["hub.example.com/Qwen/Qwen2.5-7B-Instruct", QWEN],
  ["http://10.0.0.7:8080/Qwen/Qwen2.5-7B-Instruct/discussions", QWEN],
  ["https://notgithub.com/Qwen/Qwen2.5-7B-Instruct", QWEN],
])("%s is a model", (text, id) => {
  expect(namedModel(text)).toEqual({ id, file: null });
  expect(mistakenModel(text)).toBeNull();
});

test.each([
  ["https://huggingface.co/a/b-GGUF/blob/main/b-q5_k_m.gguf", "hf:a/b-GGUF", "b-q5_k_m.gguf"],
  ["https://huggingface.co/a/b-GGUF/resolve/v2/BF16/b%20x.gguf?download=true", "hf:a/b-GGUF@v2", "BF16/b x.gguf"],
  ["https://huggingface.co/a/b-GGUF/resolve/refs%2Fpr%2F7/b.gguf", "hf:a/b-GGUF@refs/pr/7", "b.gguf"],
  ["hf.co/a/b-GGUF/blob/main/b-00002-of-00003.gguf", "hf:a/b-GGUF", "b-00001-of-00003.gguf"],
  ["https://huggingface.co/a/b-GGUF/blob/main/b@q4.gguf", "hf:a/b-GGUF", "b@q4.gguf"],
  ["https://huggingface.co/a/b-GGUF/blob/main/B-00002-of-00003.GGUF", "hf:a/b-GGUF", "B-00001-of-00003.GGUF"],
  ["https://hub.example.com/a/b-GGUF/resolve/main/b.gguf", "hf:a/b-GGUF", "b.gguf"],
  ["hf.co/a/b-GGUF:Q4_K_M", "hf:a/b-GGUF", "Q4_K_M"],
  ["hf:a/b-GGUF:Q4_K_M", "hf:a/b-GGUF", "Q4_K_M"],
  ["hf://a/b-GGUF:Q4_K_M@v2", "hf:a/b-GGUF@v2", "Q4_K_M"],
])("%s names a file too, which is sent apart", (text, id, file) => {
  expect(namedModel(text)).toEqual({ id, file });
});

test.each(["", "hf:", "hf:Qwen", "Qwen/", "https://huggingf", "https://huggingface.co", "https://huggingface.co/Qwen", "huggingface.co/", "a/b/c", "a/b c", "hf:a/%zz", "Qwen/Qwen2.", "Qwen/Qwen2.5-", "a/b..c", "a/b@v1..2", "a/b@v1@v2", "a/b:Q4:K", `a/${"b".repeat(97)}`])(
  "%s may become one",
  (text) => {
    expect(namedModel(text)).toBeNull();
    expect(mistakenModel(text)).toBeNull();
  },
);

test.each([
  ["https://ollama.com/library/llama3", "Moorage reads addresses at huggingface.co, not at ollama.com."],
  ["ollama.com/library/llama3", "Moorage reads addresses at huggingface.co, not at ollama.com."],
  ["https://www.GitHub.com/acme/demo", "Moorage reads addresses at huggingface.co, not at www.github.com."],
  ["https://gitlab.com/acme/demo", "Moorage reads addresses at huggingface.co, not at gitlab.com."],
  ["https://modelscope.cn/models/acme/demo", "Moorage reads addresses at huggingface.co, not at modelscope.cn."],
  ["https://www.kaggle.com/models/acme/demo", "Moorage reads addresses at huggingface.co, not at www.kaggle.com."],
  ["https://hub.docker.com/r/acme/demo", "Moorage reads addresses at huggingface.co, not at hub.docker.com."],
  ["ghcr.io/acme/demo:1.0", "Moorage reads addresses at huggingface.co, not at ghcr.io."],
  ["https://huggingface.co/datasets/acme/questions", "This is the address of a dataset, not of a model."],
  ["hf.co/spaces/acme/demo", "This is the address of a Space, not of a model."],
  ["https://huggingface.co/docs/transformers/index", "This is the address of documentation, not of a model."],
  ["hf.co/blog/acme/news", "This is the address of a blog post, not of a model."],
  ["https://hub.example.com/datasets/acme/questions", "This is the address of a dataset, not of a model."],
  ["datasets/acme/questions", "This is the address of a dataset, not of a model."],
])("%s is none, and it says what to paste", (text, why) => {
  expect(namedModel(text)).toBeNull();
  expect(mistakenModel(text)).toBe(
    `${why} Paste a model's page, such as https://huggingface.co/Qwen/Qwen2.5-7B-Instruct, or write hf:ORGANIZATION/NAME.`,
  );
});
