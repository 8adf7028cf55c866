const KEY_ARRIVES_WITHIN_MS = 5_000;
const KEY_PAUSE_MS = 250;

/** The page's key was made a moment ago, and a gateway may hear of it a moment later: until then it answers 401. */
export async function sent(request: () => Promise<Response>): Promise<Response> {
  const until = performance.now() + KEY_ARRIVES_WITHIN_MS;
  for (;;) {
    const response = await request();
    if (response.status !== 401 || performance.now() > until) return response;
    await new Promise((resume) => window.setTimeout(resume, KEY_PAUSE_MS));
  }
}
