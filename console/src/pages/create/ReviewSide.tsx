import { useQuery } from "@tanstack/react-query";

import { useProject } from "@/addresses/useProject";
import { billingQuery } from "@/api/queries";
import { dollars } from "@/components/Money";
import { dayAndTime } from "@/components/times";
import { useNow } from "@/components/useNow";
import type { Draft } from "@/containers/form/draft";

import classes from "./Create.module.css";
import { lasting } from "./lasting";
import { PricePanel, usePrice } from "./PricePanel";

/** Beside the review: the price, what is held of the balance and what stays, and how long that lasts. */
export function ReviewSide({ draft }: { draft: Draft }) {
  const { project } = useProject();
  const { data: billing } = useQuery(billingQuery(project.organization_id));
  const price = usePrice(draft);
  const now = useNow(30_000);
  if (!billing || !price) return <PricePanel draft={draft} />;
  const { each, min, max, type, first } = price;
  const held = each * min;
  const after = billing.available_microusd - held;
  const runsOut = billing.runs_out_at ? Date.parse(billing.runs_out_at) : null;
  const spending = { balance: billing.balance_microusd, others: billing.burn_per_hour_microusd, runsOut };
  const times = lasting({ ...spending, each, min, max }, now.getTime());
  return (
    <>
      <section className={classes.card} aria-label="Price per hour">
        <h3 className={classes.panelTitle}>Price per hour</h3>
        <p className={classes.price}>
          {first}
          {max > min ? (
            <small>
              at first, up to <strong>{dollars(each * max)}</strong>
            </small>
          ) : null}
        </p>
        <dl className={classes.sums}>
          <div>
            <dt>{billing.held_microusd > 0 ? "Available now" : "Balance"}</dt>
            <dd>{dollars(billing.available_microusd)}</dd>
          </div>
          <div>
            <dt>
              Held at deploy: {min} × {type.name}, 1 hour
            </dt>
            <dd>− {dollars(held)}</dd>
          </div>
        </dl>
        <dl className={classes.sums} data-total>
          <div>
            <dt>Available after</dt>
            <dd data-tone={after < 0 ? "warn" : undefined}>{after < 0 ? `${dollars(-after)} short` : dollars(after)}</dd>
          </div>
        </dl>
        <p className={classes.quiet}>
          {after < 0
            ? "It is refused until there is enough credit."
            : "Charged when the first replica is ready, released if that never happens."}
        </p>
      </section>
      <section className={classes.card} aria-label="Your balance lasts until">
        <h3 className={classes.panelTitle}>Your balance lasts until</h3>
        <ul className={classes.lasting}>
          {times.map(({ words, until, fraction }, at) => (
            <li key={words}>
              <span>{words}</span>
              <strong>{until === null ? "nothing is spent" : dayAndTime(new Date(until), now)}</strong>
              <i data-case={at} style={{ width: `${Math.max(fraction * 100, 1)}%` }} aria-hidden />
            </li>
          ))}
        </ul>
        <p className={classes.footnote}>Mails go out before it ends. What cannot be paid drains within its paid hours.</p>
      </section>
      <section className={classes.card} aria-label="Room">
        <dl className={classes.sums} data-plain>
          <div>
            <dt>{type.name} free now</dt>
            <dd>
              {type.free.toLocaleString("en-US")} of {Math.max(type.capacity, type.free).toLocaleString("en-US")}
            </dd>
          </div>
        </dl>
      </section>
    </>
  );
}
