import { useState } from "react";

import { useContainer } from "@/addresses/useContainer";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { zone } from "@/components/times";

import { type Filter, whenOf } from "./filter";
import { FilterBar } from "./FilterBar";
import { Histogram } from "./Histogram";
import classes from "./Logs.module.css";
import { type Place, Rows } from "./Rows";
import { useFilter } from "./useFilter";
import { MOST_LINES, useLines } from "./useLines";

export function Logs() {
  const container = useContainer();
  const { wanted, setWanted, filter } = useFilter();
  const [live, setLive] = useState(!wanted.ended);
  const [place, setPlace] = useState<Place | null>(null);
  const isLive = live && !wanted.ended;
  const { lines, total, more, error, retry, isPending } = useLines(container.id, filter, isLive);
  const change = (changes: Partial<Filter>) => {
    const next = { ...wanted, ...changes };
    setWanted({ ...next, chosenAt: next.ended ? wanted.chosenAt : Date.now() });
    if (wanted.ended && !next.ended) setLive(true);
    setPlace(null);
  };
  return (
    <main className={classes.page}>
      <h1 className="visually-hidden">Logs of {container.name}</h1>
      <FilterBar container={container} filter={wanted} change={change} live={isLive} setLive={setLive} />
      <section className={classes.card} aria-label="Lines">
        <Histogram containerId={container.id} filter={filter} goTo={(row) => setPlace({ row })} />
        <div className={classes.columns} aria-hidden>
          <span>Time ↓</span>
          <span>Instance</span>
          <span>Stream</span>
          <span>Line</span>
          <span className={classes.promise}>Newest first · times in {zone} · secrets masked</span>
        </div>
        {isPending ? <Waiting rows={12} height={16} /> : null}
        {error ? <ErrorNotice error={error} retry={retry} /> : null}
        {!isPending && !error && lines.length === 0 ? (
          <p className={classes.nothing}>
            {filter.text || filter.exclude || filter.instance || filter.stream
              ? `No such line ${whenOf(filter)}.`
              : `Nothing was printed ${whenOf(filter)}.`}
          </p>
        ) : null}
        {lines.length > 0 ? (
          <Rows
            projectId={container.project_id}
            lines={lines}
            mark={filter.text}
            count={Math.min(total, MOST_LINES)}
            more={more}
            place={place}
            scrolledAway={() => setLive(false)}
          />
        ) : null}
      </section>
      <p className={classes.foot}>
        <span>{howMany(lines.length, total)}</span>
        <span>Scroll for older lines. Scrolling pauses Live.</span>
      </p>
    </main>
  );
}

function howMany(loaded: number, total: number): string {
  const all = `${total.toLocaleString("en-US")} ${total === 1 ? "line" : "lines"}`;
  if (loaded >= Math.min(total, MOST_LINES) && total > MOST_LINES)
    return `The newest ${loaded.toLocaleString("en-US")} of ${all}. Choose a shorter range, or download the rest.`;
  return loaded < total ? `${loaded.toLocaleString("en-US")} of ${all} loaded` : all;
}
