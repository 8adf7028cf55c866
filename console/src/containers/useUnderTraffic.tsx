import { useState } from "react";

import { type Container, queryClient } from "@/api/queries";
import { Confirm } from "@/components/Confirm";

import { metricsQuery } from "./metrics/queries";
import { useAnyAction } from "./queries";
import { requestsIn } from "./traffic";

type Disruptive = "stop" | "restart";

interface Asked {
  container: Container;
  action: Disruptive;
  requests: number;
}

const LOOKED_AT = { seconds: 300, until: null };
const WORDS: Record<Disruptive, { verb: string; consequence: string }> = {
  stop: {
    verb: "Stop",
    consequence: "Requests in flight are finished; every later one is refused until somebody starts it again. Hours that are paid are not refunded.",
  },
  restart: {
    verb: "Restart",
    consequence: "New replicas take over one after the other while the old ones serve. What those hold in memory is gone.",
  },
};

/** Stops and restarts a container: at once where nobody uses it, else after a question that says who is cut off. */
export function useUnderTraffic() {
  const [asked, setAsked] = useState<Asked | null>(null);
  const [looking, setLooking] = useState<Disruptive | null>(null);
  const doing = useAnyAction(() => setAsked(null));
  const ask = async (container: Container, action: Disruptive) => {
    setLooking(action);
    const requests = container.state === "RUNNING" && !container.asleep ? await recentRequests(container) : 0;
    setLooking(null);
    if (requests > 0) setAsked({ container, action, requests });
    else doing.mutate({ containerId: container.id, action });
  };
  const words = asked ? WORDS[asked.action] : null;
  const dialog = (
    <Confirm
      opened={asked !== null}
      close={() => setAsked(null)}
      title={asked ? `${words?.verb} ${asked.container.name}?` : ""}
      action={words?.verb ?? ""}
      confirm={() => asked && doing.mutate({ containerId: asked.container.id, action: asked.action })}
      busy={doing.isPending}
    >
      <p>
        <strong>It is in use: {asked ? countOf(asked.requests) : ""} in the last 5 minutes.</strong> {words?.consequence}
      </p>
    </Confirm>
  );
  return { ask, dialog, busy: looking ?? (doing.isPending ? doing.variables.action : null) };
}

/** Zero where it cannot be known: whoever presses Stop wants it stopped, and a question without a figure is only in the way. */
async function recentRequests(container: Container): Promise<number> {
  try {
    return requestsIn(await queryClient.fetchQuery({ ...metricsQuery(container, LOOKED_AT), staleTime: 0, retry: false }));
  } catch {
    return 0;
  }
}

function countOf(requests: number): string {
  return requests === 1 ? "1 request" : `${requests.toLocaleString("en-US")} requests`;
}
