/** What is not a conversation: one request, and what came back, as any client would see it. */
import { sent } from "./sent";

export type Kind = "embeddings" | "images" | "http";

export interface Draft {
  method: "GET" | "POST";
  /** Below the endpoint's URL. */
  path: string;
  body: string;
}

export interface Outcome {
  status: number;
  requestId: string | null;
  totalMs: number;
  type: string;
  text: string;
}

/** What is sent for a text; plain HTTP is written by hand. */
export function draftOf(kind: Exclude<Kind, "http">, base: string, model: string, text: string): Draft {
  return kind === "embeddings"
    ? { method: "POST", path: `${base}/embeddings`, body: JSON.stringify({ model, input: text }) }
    : {
        method: "POST",
        path: `${base}/images/generations`,
        body: JSON.stringify({ model, prompt: text, n: 1, response_format: "b64_json" }),
      };
}

/** Of the answer, characters: more than anybody reads. */
const MOST_SHOWN = 200_000;

export async function sendOne(url: string, key: string, draft: Draft, signal: AbortSignal): Promise<Outcome> {
  const began = performance.now();
  const hasBody = draft.method === "POST";
  const response = await sent(() =>
    fetch(`${url}${draft.path.startsWith("/") ? "" : "/"}${draft.path}`, {
      method: draft.method,
      headers: { Authorization: `Bearer ${key}`, ...(hasBody ? { "Content-Type": "application/json" } : {}) },
      ...(hasBody ? { body: draft.body } : {}),
      signal,
    }),
  );
  const text = await response.text();
  return {
    status: response.status,
    requestId: response.headers.get("X-Request-ID"),
    totalMs: performance.now() - began,
    type: response.headers.get("content-type") ?? "",
    text,
  };
}

/** What an answer is worth showing as. */
export type Shown =
  | { kind: "vectors"; count: number; dimensions: number; first: number[] }
  | { kind: "picture"; source: string }
  | { kind: "text"; text: string };

export function shownAs({ status, text }: Outcome): Shown {
  const answer = parsed(text);
  const data = (answer as { data?: unknown } | null)?.data;
  if (status < 400 && Array.isArray(data) && data.length > 0) {
    const { embedding, b64_json } = data[0] as { embedding?: unknown; b64_json?: unknown };
    if (Array.isArray(embedding) && embedding.every((one) => typeof one === "number")) {
      return { kind: "vectors", count: data.length, dimensions: embedding.length, first: embedding.slice(0, 8) as number[] };
    }
    if (typeof b64_json === "string" && /^[A-Za-z0-9+/=]+$/.test(b64_json)) {
      return { kind: "picture", source: `data:${pictureType(b64_json)};base64,${b64_json}` };
    }
  }
  const whole = answer === null ? text : JSON.stringify(answer, null, 2);
  return { kind: "text", text: whole.length > MOST_SHOWN ? `${whole.slice(0, MOST_SHOWN)}\n…` : whole };
}

/** By how it begins. */
function pictureType(base64: string): string {
  if (base64.startsWith("/9j/")) return "image/jpeg";
  return base64.startsWith("UklGR") ? "image/webp" : "image/png";
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}
