import { useQuery } from "@tanstack/react-query";

import { Copy } from "@/components/Copy";
import { Money } from "@/components/Money";
import { Card } from "@/components/Page";
import { longDate } from "@/components/times";
import { useNow } from "@/components/useNow";

import classes from "./Billing.module.css";
import { type TopUp, topUpsQuery } from "./queries";

/** Transfers that were announced and have not arrived: where to pay, and what to write on them. */
export function OnTheirWay({ organizationId }: { organizationId: string }) {
  const { data = [] } = useQuery(topUpsQuery(organizationId));
  const waiting = data.filter((one) => one.state === "pending");
  if (waiting.length === 0) return null;
  return (
    <Card title="On their way" hint={String(waiting.length)}>
      <ul className={classes.waiting}>
        {waiting.map((one) => (
          <Waits key={one.id} topUp={one} />
        ))}
      </ul>
    </Card>
  );
}

function Waits({ topUp }: { topUp: TopUp }) {
  const now = useNow(60_000);
  return (
    <li>
      <header className={classes.waitingHead}>
        <strong>
          <Money microusd={topUp.amount_microusd} />
        </strong>
        <span className={classes.quiet}>
          {topUp.method === "card" ? "by card" : "by bank transfer"}, since {longDate(topUp.created_at, now)}
        </span>
        <span className={classes.awaits}>{topUp.method === "card" ? "Not paid yet" : "Awaits the transfer"}</span>
      </header>
      {topUp.checkout_url ? <a href={topUp.checkout_url}>Go on to the payment page</a> : null}
      {topUp.reference ? (
        <p className={classes.reference}>
          Reference <code>{topUp.reference}</code>
          <Copy text={topUp.reference} label="Copy reference" />
        </p>
      ) : null}
      {topUp.instructions ? <pre className={classes.instructions}>{topUp.instructions}</pre> : null}
    </li>
  );
}
