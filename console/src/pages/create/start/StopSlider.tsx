import { useId } from "react";

import classes from "./Start.module.css";

interface StopSliderProps {
  label: string;
  value: number;
  /** Ascending. A value between two of them gets a stop of its own. */
  stops: number[];
  words: (value: number) => string;
  choose: (value: number) => void;
}

/** A slider over sizes that double: each step of a key is one stop. */
export function StopSlider({ label, value, stops, words, choose }: StopSliderProps) {
  const id = useId();
  const all = [...new Set([...stops, value])].sort((one, other) => one - other);
  const at = all.indexOf(value);
  const part = all.length > 1 ? at / (all.length - 1) : 1;
  return (
    <div className={classes.slider}>
      <label htmlFor={id}>{label}</label>
      <output htmlFor={id}>{words(value)}</output>
      <input
        id={id}
        type="range"
        min={0}
        max={all.length - 1}
        step={1}
        value={at}
        aria-valuetext={words(value)}
        style={{ "--part": part } as React.CSSProperties}
        onChange={(event) => choose(all[Number(event.currentTarget.value)] ?? value)}
      />
      <small aria-hidden>{all[0]?.toLocaleString("en-US")}</small>
      <small aria-hidden>{all.at(-1)?.toLocaleString("en-US")}</small>
    </div>
  );
}
