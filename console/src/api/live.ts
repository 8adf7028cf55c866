/** Changes of containers arrive by themselves. While the stream is broken they are asked for every few seconds. */
import { useEffect } from "react";

import { api, body, type Schemas } from "./client";
import { whenItReturns } from "./connection";
import { isConnected, setConnected } from "./pace";
import { Problem } from "./problem";
import { queryClient } from "./queries";

type Container = Schemas["Container"];

const RETRY_MS = 15_000;
/** They grow by themselves, at a pace of their own. */
const AT_THEIR_PACE = new Set(["logs", "log histogram", "last lines", "metrics"]);

/** Listens to a project while its pages are looked at. A hidden page holds no connection and catches up when it returns. */
export function useProjectEvents(projectId: string): void {
  useEffect(() => {
    let source: EventSource | null = null;
    let again = 0;
    const disconnect = () => {
      window.clearTimeout(again);
      source?.close();
      source = null;
      setConnected(false);
    };
    const connect = () => {
      disconnect();
      source = new EventSource(`/api/v1/projects/${encodeURIComponent(projectId)}/events`);
      source.onopen = () => {
        setConnected(true);
        readAll();
      };
      source.onmessage = (event: MessageEvent<string>) =>
        hear(projectId, (JSON.parse(event.data) as { containers: string[] }).containers);
      source.onerror = () => {
        // Asked for once more, each read begins to ask at its own pace again.
        if (isConnected()) readAll();
        setConnected(false);
        if (source?.readyState === EventSource.CLOSED) again = window.setTimeout(connect, RETRY_MS);
      };
    };
    const follow = () => (document.hidden ? disconnect() : connect());
    follow();
    document.addEventListener("visibilitychange", follow);
    const callOff = whenItReturns(follow);
    return () => {
      callOff();
      document.removeEventListener("visibilitychange", follow);
      disconnect();
    };
  }, [projectId]);
}

function hear(projectId: string, containers: string[]): void {
  if (containers.length === 0 || containers.length > 5) readAll();
  else for (const id of containers) void readOne(projectId, id);
}

function readAll(): void {
  void queryClient.invalidateQueries({ queryKey: ["containers"], predicate: ({ queryKey }) => isTold(queryKey) });
}

/** One container changed: it is read once, for its own page and for the list, however long that is. */
async function readOne(projectId: string, containerId: string): Promise<void> {
  const list = ["containers", { projectId }];
  try {
    const container = await body(
      api.GET("/api/v1/containers/{container_id}", { params: { path: { container_id: containerId } } }),
    );
    queryClient.setQueryData(["containers", containerId], container);
    const isListed = queryClient.getQueryData<Container[]>(list)?.some((one) => one.id === containerId) ?? true;
    if (!isListed) await queryClient.invalidateQueries({ queryKey: list });
    queryClient.setQueryData<Container[]>(list, (before) =>
      before?.map((one) => (one.id === containerId ? container : one)),
    );
    await queryClient.invalidateQueries({
      queryKey: ["containers", containerId],
      predicate: ({ queryKey }) => queryKey.length > 2 && isTold(queryKey),
    });
  } catch (error) {
    // Deleted, or not to be seen any more; anything else is what the next reading is for.
    if (!(error instanceof Problem)) throw error;
    await queryClient.invalidateQueries({ queryKey: list });
  }
}

function isTold(queryKey: readonly unknown[]): boolean {
  return !AT_THEIR_PACE.has(String(queryKey[2]));
}
