import { useQuery } from "@tanstack/react-query";

import { useProject } from "@/addresses/useProject";
import { billingQuery } from "@/api/queries";
import { dollars } from "@/components/Money";
import { dayAndTime, duration } from "@/components/times";
import { useNow } from "@/components/useNow";
import type { Draft } from "@/containers/form/draft";

import classes from "./Create.module.css";
import { lasting, replicas } from "./lasting";
import { usePrice } from "./PricePanel";

/** How long the credit lasts with what is about to be deployed. */
export function BalanceCard({ draft }: { draft: Draft }) {
  const { project } = useProject();
  const { data: billing } = useQuery(billingQuery(project.organization_id));
  const price = usePrice(draft);
  const now = useNow(30_000);
  if (!billing || !price) return null;
  const { balance_microusd: balance, burn_per_hour_microusd: others } = billing;
  const first = price.each * price.min;
  const { each, min, max } = price;
  const runsOut = billing.runs_out_at ? Date.parse(billing.runs_out_at) : null;
  const [, ...withThis] = lasting({ balance, others, runsOut, each, min, max }, now.getTime());
  return (
    <section className={classes.card} aria-label="Your balance">
      <h3 className={classes.panelTitle}>Your balance</h3>
      <dl className={classes.sums} data-plain>
        <div>
          <dt>Now</dt>
          <dd>{dollars(balance)}</dd>
        </div>
        <div>
          <dt>Other containers</dt>
          <dd>{dollars(others)}/h</dd>
        </div>
      </dl>
      {billing.available_microusd < first ? (
        <p className={classes.short}>
          {dollars(first)} is held at deploy, and {dollars(Math.max(0, billing.available_microusd))} can be used.
        </p>
      ) : (
        <dl className={classes.sums}>
          {withThis.map(({ count, until }) =>
            until === null ? null : (
              <div key={count}>
                <dt>Lasts with {replicas(count)} of it</dt>
                <dd>
                  {duration(until - now.getTime())}
                  <small>until {dayAndTime(new Date(until), now)}</small>
                </dd>
              </div>
            ),
          )}
        </dl>
      )}
    </section>
  );
}
