import type { Served } from "@/containers/served";

export const LANGUAGES = ["curl", "Python", "JavaScript"] as const;
export type Language = (typeof LANGUAGES)[number];

/** A first request in each language, with the endpoint and what it serves filled in, and the key left to the environment. */
export function snippet(language: Language, url: string, { base, models }: Served): string {
  const model = JSON.stringify(models[0] ?? "default");
  switch (language) {
    case "curl":
      return `curl ${url}${base}/chat/completions \\
  -H "Authorization: Bearer $MOORAGE_API_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"model": ${model.replaceAll("'", "'\\''")}, "stream": true, "messages": [{"role": "user", "content": "Hello"}]}'`;
    case "Python":
      return `import os
from openai import OpenAI

client = OpenAI(base_url="${url}${base}", api_key=os.environ["MOORAGE_API_KEY"])
messages = [{"role": "user", "content": "Hello"}]
for chunk in client.chat.completions.create(model=${model}, messages=messages, stream=True):
    print(chunk.choices[0].delta.content or "", end="")`;
    case "JavaScript":
      return `import OpenAI from "openai";

const client = new OpenAI({ baseURL: "${url}${base}", apiKey: process.env.MOORAGE_API_KEY });
const messages = [{ role: "user", content: "Hello" }];
const stream = await client.chat.completions.create({ model: ${model}, messages, stream: true });
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta?.content ?? "");`;
  }
}
