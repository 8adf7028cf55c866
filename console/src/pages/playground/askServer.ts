/** Asks a container's server where its API is and which models it has: settings may be wrong about the first, and know nothing of
 * the second. */
import type { Container } from "@/api/queries";
import { believedOf, type Served } from "@/containers/served";

import { sent } from "./sent";

const BASES = ["/api/v1", "/v1"] as const;
const PATIENCE_MS = 10_000;

/** Null where it did not say: then its settings are believed, and it is asked again next time. */
export async function askServer(container: Container, key: string): Promise<Served | null> {
  const bases = [container.api_path, ...BASES.filter((base) => base !== container.api_path)];
  for (const base of bases) {
    const response = await sent(() =>
      fetch(`${container.endpoint_url}${base}/models`, {
        headers: { Authorization: `Bearer ${key}` },
        signal: AbortSignal.timeout(PATIENCE_MS),
      }),
    );
    const answer: unknown = await response.json().catch(() => null);
    const names = namesIn(answer);
    if (response.ok) return { base, models: names.length > 0 ? names : believedOf(container).models };
    if (response.status !== 404) return null;
  }
  // It lists no models; what it serves besides is where its settings say.
  return believedOf(container);
}

function namesIn(answer: unknown): string[] {
  const listed = (answer as { data?: unknown } | null)?.data;
  if (!Array.isArray(listed)) return [];
  return listed.map((one: { id?: unknown } | null) => one?.id).filter((id): id is string => typeof id === "string");
}
