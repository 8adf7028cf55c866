/** One question to a container, as any client would ask it: its words as they come, and when they came. */
import { sent } from "./sent";

export interface Message {
  role: "system" | "user" | "assistant";
  content: string;
}

export interface Parameters {
  model: string;
  system: string;
  temperature: number;
  maxTokens: number;
  stream: boolean;
}

export interface Timings {
  status: number | null;
  requestId: string | null;
  firstTokenMs: number | null;
  totalMs: number | null;
  /** As the container counted them, else the pieces that arrived. */
  tokens: number;
  /** In how many pieces the answer came. In one, nothing is known of when its first token was there. */
  pieces: number;
}

interface Asked {
  /** Where the container's API begins. */
  url: string;
  key: string;
  messages: Message[];
  parameters: Parameters;
  signal: AbortSignal;
  onText: (text: string) => void;
  onTimings: (timings: Partial<Timings>) => void;
}

interface Choice {
  delta?: { content?: string | null };
  message?: { content?: string | null };
}

interface Answer {
  choices?: Choice[];
  usage?: { completion_tokens?: number } | null;
  error?: { message?: string };
}

export function requestBody(messages: Message[], parameters: Parameters) {
  const system: Message[] = parameters.system ? [{ role: "system", content: parameters.system }] : [];
  return {
    model: parameters.model || "default",
    messages: [...system, ...messages],
    temperature: parameters.temperature,
    max_tokens: parameters.maxTokens,
    stream: parameters.stream,
  };
}

export async function ask({ url, key, messages, parameters, signal, onText, onTimings }: Asked): Promise<void> {
  const began = performance.now();
  const response = await sent(() =>
    fetch(`${url}/chat/completions`, {
      method: "POST",
      headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
      body: JSON.stringify(requestBody(messages, parameters)),
      signal,
    }),
  );
  onTimings({ status: response.status, requestId: response.headers.get("X-Request-ID") });
  if (!response.ok) throw new Error(await refusal(response));
  const isStream = response.headers.get("content-type")?.includes("text/event-stream") ?? false;
  let tokens = 0;
  let pieces = 0;
  const take = (answer: Answer) => {
    if (answer.error) throw new Error(answer.error.message ?? "The container reported an error in its stream.");
    const text = answer.choices?.[0]?.delta?.content ?? answer.choices?.[0]?.message?.content ?? "";
    if (text) {
      if (pieces === 0 && isStream) onTimings({ firstTokenMs: performance.now() - began });
      pieces += 1;
      tokens += 1;
      onText(text);
    }
    tokens = answer.usage?.completion_tokens ?? tokens;
    onTimings({ totalMs: performance.now() - began, tokens, pieces });
  };
  if (isStream) {
    for await (const data of events(response)) {
      if (data === "[DONE]") break;
      take(JSON.parse(data) as Answer);
    }
  } else {
    take((await response.json()) as Answer);
  }
  onTimings({ totalMs: performance.now() - began, tokens, pieces });
}

async function refusal(response: Response): Promise<string> {
  const text = await response.text();
  try {
    const answer = JSON.parse(text) as Answer;
    return answer.error?.message ?? `The container answered ${response.status}.`;
  } catch {
    return `The container answered ${response.status}: ${text.slice(0, 200)}`;
  }
}

/** The `data:` of each server-sent event. */
async function* events(response: Response): AsyncGenerator<string> {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split(/\r?\n/);
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.startsWith("data:")) yield line.slice(5).trim();
  }
}
