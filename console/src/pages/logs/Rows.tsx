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
              <Row line={line} open={open === key} toggle={() => setOpen(open === key ? null : key)} />
            </div>
          );
        })}
      </div>
    </div>
  );
}

function Row({ line, open, toggle }: { line: Line; open: boolean; toggle: () => void }) {
  return (
    <>
      <UnstyledButton className={classes.row} data-open={open || undefined} aria-expanded={open} onClick={toggle}>
        <time dateTime={line.time}>{clockTime(line.time, true)}</time>
        <span className={classes.instance} data-color={colorOf(line.instance_id)}>
          {line.instance_id.slice(4, 10)}
        </span>
        <span className={classes.stream} data-stream={line.stream}>
          {line.stream === "stderr" ? "err" : "out"}
        </span>
        <span className={classes.line}>
          <AnsiText text={line.text} />
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

/** The same instance has the same colour everywhere. */
function colorOf(instance: string): number {
  let sum = 0;
  for (const character of instance) sum = (sum * 31 + character.charCodeAt(0)) % 9973;
  return (sum % COLORS) + 1;
}
