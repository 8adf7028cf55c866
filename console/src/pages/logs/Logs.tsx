import { useDebouncedValue } from "@mantine/hooks";
import { useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import { useContainer } from "@/addresses/useContainer";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { zone } from "@/components/times";

import { aroundIn, EVERYTHING, type Filter, whenOf } from "./filter";
import { FilterBar } from "./FilterBar";
import { Histogram } from "./Histogram";
import classes from "./Logs.module.css";
import { type Place, Rows } from "./Rows";
import { MOST_LINES, useLines } from "./useLines";

const TYPING_PAUSE_MS = 300;

export function Logs() {
  const around = aroundIn(useSearch({ strict: false }));
  // Whoever comes from another request, or from none, begins anew.
  return <LogsFrom key={around?.chosenAt} around={around} />;
}

function LogsFrom({ around }: { around: Filter | null }) {
  const container = useContainer();
  const [wanted, setWanted] = useState<Filter>(() => around ?? { ...EVERYTHING, chosenAt: Date.now() });
  const [live, setLive] = useState(!wanted.ended);
  const [place, setPlace] = useState<Place | null>(null);
  const [text] = useDebouncedValue(wanted.text, TYPING_PAUSE_MS);
  const filter = useMemo(() => ({ ...wanted, text: text.trim() }), [wanted, text]);
  const { lines, total, more, error, retry, isPending } = useLines(container.id, filter, live);
  const change = (changes: Partial<Filter>) => {
    const next = { ...wanted, ...changes };
    setWanted({ ...next, chosenAt: next.ended ? wanted.chosenAt : Date.now() });
    if (wanted.ended && !next.ended) setLive(true);
    setPlace(null);
  };
  return (
    <main className={classes.page}>
      <h1 className="visually-hidden">Logs of {container.name}</h1>
      <FilterBar container={container} filter={wanted} change={change} live={live} setLive={setLive} />
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
            {filter.text || filter.instance || filter.stream
              ? `No such line ${whenOf(filter)}.`
              : `Nothing was printed ${whenOf(filter)}.`}
          </p>
        ) : null}
        {lines.length > 0 ? (
          <Rows
            projectId={container.project_id}
            lines={lines}
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
