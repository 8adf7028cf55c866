import { UnstyledButton } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, useState } from "react";

import { AnsiText } from "@/components/AnsiText";
import { Copy } from "@/components/Copy";
import { clockTime } from "@/components/times";

import classes from "./Logs.module.css";
import { type Line, lineKey } from "./useLines";

const ROW_HEIGHT = 22;
const NEAR_THE_END = 100;
const COLORS = 5;
/** Of a line that was opened; all of it can be copied. */
const MOST_OPENED = 100_000;

interface RowsProps {
  lines: Line[];
  more: () => void;
  scrolledAway: () => void;
}

export function Rows({ lines, more, scrolledAway }: RowsProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const [open, setOpen] = useState<string | null>(null);
  const rows = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    getItemKey: (index) => lineKey(lines[index]!),
    overscan: 20,
  });
  const shown = rows.getVirtualItems();
  const colors = useInstanceColors();
  const last = shown.at(-1)?.index ?? 0;
  useEffect(() => {
    if (last > lines.length - NEAR_THE_END) more();
  }, [last, lines.length, more]);
  return (
    <div
      ref={scroller}
      className={`${classes.rows} mono`}
      tabIndex={0}
      role="region"
      aria-label="Log lines, newest first"
      onScroll={(event) => event.currentTarget.scrollTop > ROW_HEIGHT * 4 && scrolledAway()}
    >
      <div style={{ height: rows.getTotalSize(), position: "relative" }}>
        {shown.map((row) => {
          const line = lines[row.index]!;
          const key = lineKey(line);
          return (
            <div
              key={key}
              ref={rows.measureElement}
              data-index={row.index}
              className={classes.place}
              style={{ transform: `translateY(${row.start}px)` }}
            >
              <Row
                line={line}
                color={colors(line.instance_id)}
                open={open === key}
                toggle={() => setOpen(open === key ? null : key)}
              />
            </div>
          );
        })}
      </div>
    </div>
  );
}

function Row({ line, color, open, toggle }: { line: Line; color: number; open: boolean; toggle: () => void }) {
  return (
    <>
      <UnstyledButton className={classes.row} data-open={open || undefined} aria-expanded={open} onClick={toggle}>
        <time dateTime={line.time}>{clockTime(line.time, true)}</time>
        <span className={classes.instance} data-color={color}>
          {line.instance_id.slice(4, 10)}
        </span>
        <span className={classes.stream} data-stream={line.stream}>
          {line.stream === "stderr" ? "err" : "out"}
        </span>
        <span className={classes.line}>
          <AnsiText text={line.text} {...(open ? { most: MOST_OPENED } : {})} />
        </span>
      </UnstyledButton>
      {open ? (
        <div className={classes.more}>
          <span>
            Instance <code>{line.instance_id}</code>
          </span>
          <span>
            Line <code>{line.sequence}</code>
          </span>
          <Copy text={line.text} label="Copy line" withLabel />
        </div>
      ) : null}
    </>
  );
}

/** Instances get colours in the order in which they are met, and keep them while the page is open. */
function useInstanceColors(): (instance: string) => number {
  const [met] = useState(() => new Map<string, number>());
  return (instance) => {
    const color = met.get(instance) ?? (met.size % COLORS) + 1;
    met.set(instance, color);
    return color;
  };
}
