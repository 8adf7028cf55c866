import { useMediaQuery } from "@mantine/hooks";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";

import classes from "./Logs.module.css";
import type { Line } from "./queries";
import { Row } from "./Row";
import { lineKey } from "./useLines";

/** Every closed line has the same, so that the place of the last of 100,000 is known without a look at the others. */
const ROW_HEIGHT = 22;
/** Time, instance and stream stand above the line, which wraps; each is measured once it is in view. */
const PHONE_ROW_HEIGHT = 66;
const ROWS_BEYOND = 12;
/** Lines that are there before they are scrolled to. */
const AHEAD = 2_000;
const AWAY_PX = 88;
const COLORS = 5;

/** Where to scroll to; another one each time that somebody asks for it. */
export interface Place {
  row: number;
}

interface RowsProps {
  projectId: string;
  lines: Line[];
  /** Shown where it stands in a line. */
  mark: string;
  /** With those that are still to come. */
  count: number;
  more: () => void;
  place: Place | null;
  scrolledAway: () => void;
}

export function Rows({ projectId, lines, mark, count, more, place, scrolledAway }: RowsProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const isPhone = useMediaQuery("(max-width: 767px)", undefined, { getInitialValueInEffect: false });
  const height = isPhone ? PHONE_ROW_HEIGHT : ROW_HEIGHT;
  const [opened, setOpened] = useState<Line | null>(null);
  const toggle = useCallback((one: Line) => setOpened((before) => (before === one ? null : one)), []);
  const isMeasured = useCallback((line: Line | undefined) => line !== undefined && (isPhone || line === opened), [isPhone, opened]);
  const colors = useInstanceColors();
  const rows = useVirtualizer({
    count,
    getScrollElement: () => scroller.current,
    // A measured height belongs to its line, which others move down.
    getItemKey: useCallback((index: number) => (isMeasured(lines[index]) ? lineKey(lines[index]!) : index), [lines, isMeasured]),
    estimateSize: () => height,
    overscan: ROWS_BEYOND,
  });
  useLayoutEffect(() => rows.measure(), [rows, height]);
  useEffect(() => {
    if (place) rows.scrollToIndex(place.row, { align: "start" });
  }, [rows, place]);
  const shown = rows.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  useEffect(() => {
    if (last + AHEAD > lines.length) more();
  }, [last, lines.length, more]);
  return (
    <div
      ref={scroller}
      className={`${classes.rows} mono`}
      tabIndex={0}
      role="region"
      aria-label="Log lines, newest first"
      onScroll={(event) => event.currentTarget.scrollTop > AWAY_PX && scrolledAway()}
    >
      <div style={{ height: rows.getTotalSize(), position: "relative" }}>
        {shown.map(({ index, start, size }) => {
          const line = lines[index];
          return (
            <div
              key={line ? lineKey(line) : index}
              ref={isMeasured(line) ? rows.measureElement : undefined}
              data-index={index}
              className={classes.place}
              style={{ transform: `translateY(${start}px)`, height: isMeasured(line) ? undefined : size }}
            >
              {line ? (
                <Row line={line} mark={mark} projectId={projectId} color={colors(line.instance_id)} open={line === opened} toggle={toggle} />
              ) : (
                <i className={classes.coming} />
              )}
            </div>
          );
        })}
      </div>
    </div>
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
