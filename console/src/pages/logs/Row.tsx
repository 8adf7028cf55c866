import { memo } from "react";

import { AnsiText } from "@/components/AnsiText";
import { Copy } from "@/components/Copy";
import { lineTime } from "@/components/times";

import { LineRequests } from "./LineRequests";
import classes from "./Logs.module.css";
import type { Line } from "./queries";

/** Characters of a line: of a closed one more than the widest screen has room for, of an open one what a person may
 * read. All of it can be copied. */
const MOST_CLOSED = 1_000;
const MOST_OPENED = 100_000;

/** The last one is not the container's: Moorage says something about its log. */
const STREAM_LABELS: Record<Line["stream"], string> = { stdout: "out", stderr: "err", moorage: "Moorage" };

interface RowProps {
  line: Line;
  mark: string;
  projectId: string;
  color: number;
  open: boolean;
  toggle: (line: Line) => void;
}

export const Row = memo(function Row({ line, mark, projectId, color, open, toggle }: RowProps) {
  return (
    <>
      <button
        type="button"
        className={classes.row}
        data-open={open || undefined}
        aria-expanded={open}
        onClick={() => toggle(line)}
      >
        <time dateTime={line.time}>{lineTime(line.time)}</time>
        <span className={classes.instance} data-color={color}>
          {line.instance_id.slice(4, 10)}
        </span>
        <span className={classes.stream} data-stream={line.stream}>
          {STREAM_LABELS[line.stream]}
        </span>
        <span className={classes.line}>
          <AnsiText text={line.text} mark={mark} most={open ? MOST_OPENED : MOST_CLOSED} />
        </span>
      </button>
      {open ? (
        <div className={classes.more}>
          <span>
            Time <code>{line.time}</code>
          </span>
          <span>
            Instance <code>{line.instance_id}</code>
          </span>
          <span>
            Line <code>{line.sequence}</code>
          </span>
          <LineRequests line={line} projectId={projectId} />
          <Copy text={line.text} label="Copy line" withLabel />
        </div>
      ) : null}
    </>
  );
});
