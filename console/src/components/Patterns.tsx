/** What a page shows when it has nothing, not yet something, or an error. */
import { Button, Skeleton } from "@mantine/core";
import { type ReactNode, useEffect, useState } from "react";

import { messageOf, Problem } from "@/api/problem";

import { Copy } from "./Copy";
import classes from "./Patterns.module.css";

interface EmptyProps {
  /** One sentence. */
  children: ReactNode;
  /** One button. */
  action?: ReactNode;
  /** One command that does the same. */
  command?: string;
}

export function Empty({ children, action, command }: EmptyProps) {
  return (
    <div className={classes.empty}>
      <p>{children}</p>
      {action}
      {command ? (
        <div className={classes.command}>
          <code>{command}</code>
          <Copy text={command} label="Copy command" />
        </div>
      ) : null}
    </div>
  );
}

const SKELETON_AFTER_MS = 200;

/** The real layout in grey, and only when the wait is long enough to be noticed. */
export function Waiting({ rows = 4, height = 20 }: { rows?: number; height?: number }) {
  const [shown, setShown] = useState(false);
  useEffect(() => {
    const timer = window.setTimeout(() => setShown(true), SKELETON_AFTER_MS);
    return () => window.clearTimeout(timer);
  }, []);
  if (!shown) return null;
  return (
    <div className={classes.waiting} role="status" aria-busy="true" aria-label="Loading">
      {Array.from({ length: rows }, (_, index) => (
        <Skeleton key={index} height={height} animate={false} />
      ))}
    </div>
  );
}

/** The server's own sentence, and the request id that support can look up. */
export function ErrorNotice({ error, retry }: { error: unknown; retry?: () => void }) {
  const requestId = error instanceof Problem ? error.requestId : null;
  return (
    <div className={classes.error} role="alert">
      <p className={classes.errorText}>{messageOf(error)}</p>
      {requestId ? (
        <p className={classes.requestId}>
          Request <code>{requestId}</code> <Copy text={requestId} label="Copy request id" />
        </p>
      ) : null}
      {retry ? (
        <Button variant="default" onClick={retry}>
          Try again
        </Button>
      ) : null}
    </div>
  );
}
