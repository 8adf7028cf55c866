import type { ModelPlan, Origin } from "./origin";
import { StopSlider } from "./StopSlider";

const SHORTEST_CONTEXT = 2_048;
const USUAL_LONGEST_CONTEXT = 32_768;
const MOST_REQUESTS = 64;

interface LoadProps {
  plan: ModelPlan;
  origin: Origin;
  change: (changes: Partial<Origin>) => void;
}

/** What is asked of one replica. What only reads, as one that makes embeddings, keeps no context. */
export function Load({ plan, origin, change }: LoadProps) {
  const longest = plan.longest_context_tokens ?? USUAL_LONGEST_CONTEXT;
  if (!plan.context_bytes_per_request) return null;
  return (
    <>
      <StopSlider
        label="Context"
        value={origin.context ?? plan.context_tokens ?? longest}
        stops={doubling(Math.min(SHORTEST_CONTEXT, longest), longest)}
        words={(tokens) => `${tokens.toLocaleString("en-US")} tokens`}
        choose={(context) => change({ context })}
      />
      <StopSlider
        label="Requests at once"
        value={origin.requests ?? plan.requests_at_once ?? 1}
        stops={doubling(1, MOST_REQUESTS)}
        words={(requests) => requests.toLocaleString("en-US")}
        choose={(requests) => change({ requests })}
      />
    </>
  );
}

function doubling(first: number, last: number): number[] {
  const stops = [];
  for (let stop = first; stop < last; stop *= 2) stops.push(stop);
  return [...stops, last];
}
