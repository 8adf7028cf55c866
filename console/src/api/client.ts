import createClient, { type Middleware } from "openapi-fetch";

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

const session: Middleware = {
  onRequest({ request }) {
    if (csrfToken && !SAFE.has(request.method)) request.headers.set("X-CSRF-Token", csrfToken);
    return request;
  },
  async onResponse({ response }) {
    answered();
    if (response.ok) return response;
    throw new Problem(response.status, await readProblem(response), response.headers.get("X-Request-ID"));
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
