import classes from "./Chart.module.css";
import type { Area } from "./drawing";

export interface Pin {
  /** Seconds since 1970. */
  at: number;
  number: number;
  label: string;
  selected: boolean;
  select: () => void;
}

const APART = 24;

/** Numbered moments. Where they are too close for a number each, the earlier one is only a line. */
export function Pins({ area, pins }: { area: Area; pins: Pin[] }) {
  const placed = pins
    .filter((pin) => pin.at >= area.from && pin.at <= area.to)
    .map((pin) => ({ pin, left: area.left + ((pin.at - area.from) / (area.to - area.from)) * area.width }))
    .sort((one, other) => other.left - one.left);
  const taken = placed.filter(({ pin }) => pin.selected).map(({ left }) => left);
  return (
    <>
      {placed.map(({ pin, left }) => {
        const isFree = pin.selected || taken.every((other) => Math.abs(other - left) >= APART);
        if (isFree) taken.push(left);
        return (
          <span key={pin.number} className={classes.pin} style={{ left }} data-selected={pin.selected || undefined}>
            <i style={{ top: isFree ? 20 : area.top, height: area.top + area.height - (isFree ? 20 : area.top) }} />
            {isFree ? (
              <button type="button" aria-label={pin.label} aria-pressed={pin.selected} onClick={pin.select}>
                {pin.number}
              </button>
            ) : null}
          </span>
        );
      })}
    </>
  );
}
