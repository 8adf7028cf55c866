import type { ReactNode } from "react";

import { StateIcon } from "@/components/StateIcon";
import type { Tone } from "@/components/state";
import { shortTime } from "@/components/times";

import type { Condition, Look } from "./condition";
import classes from "./Machine.module.css";

const TONES: Record<Look, Tone> = {
  active: "ok",
  probation: "warn",
  verifying: "accent",
  paused: "idle",
  draining: "idle",
  joining: "warn",
  lost: "bad",
  banned: "bad",
  attention: "warn",
};

/** Icon and word, since when, and one sentence about it. */
export function MachineCondition({ condition, now }: { condition: Condition; now: Date }) {
  return (
    <div className={classes.condition}>
      <span className={classes.state}>
        <span data-tone={TONES[condition.look]}>
          <Icon look={condition.look} />
          {condition.word}
        </span>
        {condition.by ? <span className={classes.by}>{condition.by}</span> : null}
        {condition.since ? <time dateTime={condition.since}>since {shortTime(condition.since, now)}</time> : null}
      </span>
      <p>{condition.sentence}</p>
    </div>
  );
}

/** Where a container has the same state, its silhouette. */
function Icon({ look }: { look: Look }) {
  if (look === "active") return <StateIcon state="RUNNING" />;
  if (look === "draining") return <StateIcon state="STOPPING" />;
  if (look === "joining") return <StateIcon state="PENDING" />;
  return (
    <svg
      width={16}
      height={16}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth={1.5}
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden
    >
      {SHAPES[look]}
    </svg>
  );
}

const SHAPES: Record<Exclude<Look, "active" | "draining" | "joining">, ReactNode> = {
  paused: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="M6.4 5.8v4.4M9.6 5.8v4.4" />
    </>
  ),
  lost: (
    <>
      <path d="M5 2.8a6 6 0 0 0 0 10.4M11 2.8a6 6 0 0 1 0 10.4" />
      <path d="M6.3 6.3l3.4 3.4M9.7 6.3 6.3 9.7" />
    </>
  ),
  probation: <path d="M4.5 2.5h7M4.5 13.5h7M5.2 2.5v2.3L8 8l2.8-3.2V2.5M5.2 13.5v-2.3L8 8l2.8 3.2v2.3" />,
  verifying: <path d="M8 1.8 13 4v4.2c0 2.8-2 4.9-5 6-3-1.1-5-3.2-5-6V4zM5.8 8l1.6 1.6 2.9-3.1" />,
  banned: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="M3.8 3.8l8.4 8.4" />
    </>
  ),
  attention: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="M8 5v3.4M8 10.9v.1" />
    </>
  ),
};
