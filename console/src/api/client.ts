import createClient, { type Middleware } from "openapi-fetch";

import { keyFor, makesSomething, settled } from "./attempts";
import { answered, unanswered } from "./connection";
import { Problem, type ProblemBody } from "./problem";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

/** Of the cookie's session; every request that changes something carries it. Set by sign-in and by `/me`. */
let csrfToken: string | null = null;

export function rememberCsrfToken(token: string | null | undefined): void {
  csrfToken = token ?? null;
}

const LOST = "Connection lost.";
/** Nothing that changes something is sent later: by then nobody may want it any more. */
const NOT_DONE = "Connection lost, so nobody knows whether this was done. Look when the connection is back, then try again.";
const SAFE = new Set(["GET", "HEAD", "OPTIONS"]);

const KEY = "Idempotency-Key";

const session: Middleware = {
  async onRequest({ request }) {
    if (csrfToken && !SAFE.has(request.method)) request.headers.set("X-CSRF-Token", csrfToken);
    if (makesSomething(request.method, request.url)) {
      const body = await request.text();
      request.headers.set(KEY, keyFor(`${request.url}\n${body}`, Date.now()));
      // As text again, and not as a stream, which what was read and a clone are.
      if (body !== "") return new Request(request, { body });
    }
    return request;
  },
  async onResponse({ request, response }) {
    answered();
    const problem = response.ok ? null : await readProblem(response);
    settled(request.headers.get(KEY), response.status, problem?.code ?? "");
    if (!problem) return response;
    throw new Problem(response.status, problem, response.headers.get("X-Request-ID"));
  },
  onError({ error, request }) {
    // Whoever left the page has called it off; that says nothing about the connection.
    if (error instanceof DOMException && error.name === "AbortError") return error;
    unanswered();
    return new Problem(0, { code: "connection_lost", detail: SAFE.has(request.method) ? LOST : NOT_DONE }, null);
  },
};

async function readProblem(response: Response): Promise<ProblemBody> {
  try {
    return (await response.json()) as ProblemBody;
  } catch {
    return { code: "http_error", detail: `The server answered ${response.status}.` };
  }
}

/** `api.GET("/api/v1/me")`: typed by the API's own description. An answer that is not 2xx is thrown as a `Problem`. */
export const api = createClient<paths>({ baseUrl: "/" });
api.use(session);

/** The body of an answer, or the `Problem` that was thrown on the way. */
export async function body<T>(answer: Promise<{ data?: T }>): Promise<T> {
  return (await answer).data as T;
}
