import { useQuery } from "@tanstack/react-query";

import { useProject } from "@/addresses/useProject";
import { billingQuery } from "@/api/queries";
import { dollars } from "@/components/Money";
import { dayAndTime, duration } from "@/components/times";
import { useNow } from "@/components/useNow";
import type { Draft } from "@/containers/form/draft";

import classes from "./Create.module.css";
import { usePrice } from "./PricePanel";

const HOUR_MS = 3_600_000;

/** How long the credit lasts with what is about to be deployed. */
export function BalanceCard({ draft }: { draft: Draft }) {
  const { project } = useProject();
  const { data: billing } = useQuery(billingQuery(project.organization_id));
  const price = usePrice(draft);
  const now = useNow(30_000);
  if (!billing || !price) return null;
  const { balance_microusd: balance, burn_per_hour_microusd: others } = billing;
  const first = price.each * price.min;
  const lastsMs = (balance / (others + first)) * HOUR_MS;
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
          <div>
            <dt>Lasts with this one</dt>
            <dd>
              {duration(lastsMs)}
              <small>until {dayAndTime(new Date(now.getTime() + lastsMs), now)}</small>
            </dd>
          </div>
        </dl>
      )}
    </section>
  );
}
