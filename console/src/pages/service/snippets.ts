export const LANGUAGES = ["curl", "Python", "JavaScript"] as const;
export type Language = (typeof LANGUAGES)[number];

/** A first request in each language, with the endpoint filled in and the key left to the environment. */
export function snippet(language: Language, url: string): string {
  switch (language) {
    case "curl":
      return `curl ${url}/api/v1/chat/completions \\
  -H "Authorization: Bearer $MOORAGE_API_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"model": "default", "stream": true, "messages": [{"role": "user", "content": "Hello"}]}'`;
    case "Python":
      return `import os
from openai import OpenAI

client = OpenAI(base_url="${url}/api/v1", api_key=os.environ["MOORAGE_API_KEY"])
messages = [{"role": "user", "content": "Hello"}]
for chunk in client.chat.completions.create(model="default", messages=messages, stream=True):
    print(chunk.choices[0].delta.content or "", end="")`;
    case "JavaScript":
      return `import OpenAI from "openai";

const client = new OpenAI({ baseURL: "${url}/api/v1", apiKey: process.env.MOORAGE_API_KEY });
const messages = [{ role: "user", content: "Hello" }];
const stream = await client.chat.completions.create({ model: "default", messages, stream: true });
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta?.content ?? "");`;
  }
}
