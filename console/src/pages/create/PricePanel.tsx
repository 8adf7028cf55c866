import { useQuery } from "@tanstack/react-query";

import { type InstanceType, instanceTypesQuery } from "@/api/queries";
import { dollars } from "@/components/Money";
import { span } from "@/components/PriceRange";
import type { Draft } from "@/containers/form/draft";

import classes from "./Create.module.css";
import { replicas } from "./lasting";
import { countsBetween } from "./priceSteps";

const HOURS_A_DAY = 24;

/** What it will cost, as soon as an instance type is chosen. */
export function usePrice(draft: Draft) {
  const types = useQuery(instanceTypesQuery).data;
  const type = types?.find((one) => one.name === draft.instanceType);
  if (!type) return null;
  const [min, max] = draft.mode === "general" ? [1, 1] : [draft.min, Math.max(draft.min, draft.max)];
  const sibling = draft.infrastructure === "any" ? types?.find((one) => one.name === type.sibling) : undefined;
  const prices = [type, ...(sibling ? [sibling] : [])].map((one) => one.price_per_hour_microusd);
  // Of the two it takes the cheaper that has room, which is known when it starts: until then the dearer one is held.
  const [least, each] = [Math.min(...prices), Math.max(...prices)];
  return { type, sibling, min, max, least, each, first: span(least * min, each * min) };
}

interface PricePanelProps {
  draft: Draft;
  /** Of the types that a model fits on. */
  isCheapest?: boolean;
  /** What to do for a price. */
  hint?: string;
}

export function PricePanel({ draft, isCheapest = false, hint = "Choose an instance type to see it." }: PricePanelProps) {
  const price = usePrice(draft);
  if (!price) {
    return (
      <section className={classes.card}>
        <h3 className={classes.panelTitle}>Price</h3>
        <p className={classes.quiet}>{hint}</p>
      </section>
    );
  }
  const { type, sibling, min, max, least, each } = price;
  return (
    <section className={classes.card}>
      <h3 className={classes.panelTitle}>Price</h3>
      <p className={classes.price}>
        {span(least * min, each * max)}
        <small>/h</small>
      </p>
      <p className={classes.quiet}>
        {named(type)}
        {sibling ? ` or ${named(sibling)}, the cheaper one that has room` : null},{" "}
        {min === max ? replicas(min) : `${min} to ${max} replicas`}
        {isCheapest ? ". The cheapest type that fits." : null}
      </p>
      {min < max ? <Bars each={each} min={min} max={max} /> : null}
      <dl className={classes.sums}>
        <div>
          <dt>A day at {replicas(min)}</dt>
          <dd>{span(least * min * HOURS_A_DAY, each * min * HOURS_A_DAY)}</dd>
        </div>
        {min < max ? (
          <div>
            <dt>A day at {replicas(max)}</dt>
            <dd>{span(least * max * HOURS_A_DAY, each * max * HOURS_A_DAY)}</dd>
          </div>
        ) : null}
        <div>
          <dt>Held at deploy</dt>
          <dd>{dollars(each * min)}</dd>
        </div>
      </dl>
      {least < each ? <p className={classes.quiet}>The dearer price is held; what a replica does not cost is given back.</p> : null}
      <p className={classes.quiet}>One hour is held. Charged when the first replica is ready, released if that never happens.</p>
    </section>
  );
}

function Bars({ each, min, max }: { each: number; min: number; max: number }) {
  const counts = countsBetween(min, max);
  return (
    <figure className={classes.bars} aria-label="Price by number of replicas">
      {counts.map((count) => (
        <div key={count} data-first={count === min || undefined}>
          <span>{counts.length <= 5 ? dollars(each * count) : ""}</span>
          <i style={{ height: Math.max(4, (count / max) * 56) }} />
          <small>{count}</small>
        </div>
      ))}
      <figcaption>Replicas. An hour starts when one is ready.</figcaption>
    </figure>
  );
}

function named(type: InstanceType): string {
  return `${type.name} at ${dollars(type.price_per_hour_microusd)}/h`;
}
