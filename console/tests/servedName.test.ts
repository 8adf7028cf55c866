/** Which model a request names before anybody asked the container for its list. */
import { expect, test } from "vitest";

import { believedOf } from "@/containers/served";
import { servedName } from "@/containers/servedName";
import { snippet } from "@/pages/service/snippets";

const QWEN = "Qwen/Qwen2.5-7B-Instruct";

test.each([
  [`vllm serve ${QWEN} --host 0.0.0.0 --max-model-len 16384`, QWEN],
  [`vllm serve /models/qwen --served-model-name qwen --port 8000`, "qwen"],
  [`vllm serve ${QWEN} --served-model-name=qwen`, "qwen"],
  [`python3 -m sglang.launch_server --model-path ${QWEN} --host 0.0.0.0`, QWEN],
  [`sglang serve --model-path black-forest-labs/FLUX.1-schnell`, "black-forest-labs/FLUX.1-schnell"],
  [`/tgi-entrypoint.sh --model-id '${QWEN}' --port 80`, QWEN],
  ["/app/llama-server --hf-repo a/b-GGUF --hf-file b-q4_k_m.gguf", "a/b-GGUF"],
  ["/bin/sh -ec 'ollama serve & ollama pull hf.co/a/b-GGUF:Q4_K_M; kill $own'", "hf.co/a/b-GGUF:Q4_K_M"],
  ["/app/llama-server --model /models/x.gguf", null],
  ["vllm serve $MODEL --port 8000", null],
  ["vllm serve --port 8000", null],
  ["python3 serve.py --no-model thing --model-loader fast", null],
  ["", null],
  [null, null],
])("%s serves %s", (start_command, name) => {
  expect(servedName({ start_command })).toBe(name);
});

test("a snippet names the model that was deployed", () => {
  const served = believedOf({ api_path: "/v1", start_command: `vllm serve ${QWEN}` });
  expect(snippet("Python", "https://a.example/c/1", served)).toContain(`model="${QWEN}"`);
  expect(snippet("curl", "https://a.example/c/1", believedOf({ api_path: "/v1", start_command: null }))).toContain('"model": "default"');
});
