import type { Look } from "./state";
import classes from "./State.module.css";

/** Each state has a silhouette of its own, so that it can be told without its colour. */
export function StateIcon({ state, size = 16 }: { state: Look; size?: number }) {
  return (
    <svg
      className={classes.icon}
      data-state={state}
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth={1.5}
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden
    >
      {SHAPES[state]}
    </svg>
  );
}

const SHAPES: Record<Look, React.ReactNode> = {
  PENDING: (
    <>
      <circle cx="8" cy="8" r="6" strokeDasharray="2.6 2.1" />
      <path d="M8 5v3.2l2 1.3" />
    </>
  ),
  PULLING: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="M8 4.8v6M5.6 8.6 8 11l2.4-2.4" />
    </>
  ),
  STARTING: <path className={classes.turning} d="M8 2a6 6 0 1 0 6 6" strokeWidth={2} />,
  RUNNING: (
    <>
      <circle cx="8" cy="8" r="6" fill="currentColor" stroke="none" opacity="0.22" />
      <circle cx="8" cy="8" r="3.6" fill="currentColor" stroke="none" />
    </>
  ),
  STOPPING: (
    <>
      <circle cx="8" cy="8" r="5.6" />
      <path d="M2.4 8a5.6 5.6 0 0 0 11.2 0z" fill="currentColor" stroke="none" />
    </>
  ),
  ASLEEP: <path d="M13.4 9.6A5.8 5.8 0 1 1 6.4 2.6a4.7 4.7 0 0 0 7 7z" />,
  STOPPED: <rect x="3.5" y="3.5" width="9" height="9" rx="1.6" />,
  FAILED: (
    <>
      <path d="M8 1.8 15 14H1z" fill="currentColor" strokeWidth={1} />
      <path d="M8 6.4v3.4" stroke="var(--m-surface)" strokeWidth={1.6} />
      <circle cx="8" cy="11.9" r="0.9" fill="var(--m-surface)" stroke="none" />
    </>
  ),
  DELETING: <path d="M3 4.5h10M6.5 4.5V3h3v1.5M4.2 4.5l.6 8.5h6.4l.6-8.5M7 7v3.6M9 7v3.6" />,
};
