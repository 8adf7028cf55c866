import { useCallback, useRef, useState } from "react";

import { api, body } from "@/api/client";

const LIFE_MS = 15 * 60_000;
const SPARE_MS = 60_000;

/** A key for this page alone: made at the first question, good for 15 minutes, kept in memory and nowhere else. */
export function useSessionKey(projectId: string) {
  const held = useRef<{ key: string; until: number } | null>(null);
  const [endsAt, setEndsAt] = useState<Date | null>(null);
  const obtain = useCallback(async () => {
    if (held.current && held.current.until - Date.now() > SPARE_MS) return held.current.key;
    const until = Date.now() + LIFE_MS;
    const made = await body(
      api.POST("/api/v1/projects/{project_id}/api-keys", {
        params: { path: { project_id: projectId } },
        body: { name: "playground", scope: "inference", expires_at: new Date(until).toISOString() },
      }),
    );
    held.current = { key: made.key, until };
    setEndsAt(new Date(until));
    return made.key;
  }, [projectId]);
  return { obtain, endsAt };
}
