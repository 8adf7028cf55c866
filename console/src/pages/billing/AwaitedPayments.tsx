import { useQuery } from "@tanstack/react-query";

import { Copy } from "@/components/Copy";
import { dollars } from "@/components/Money";
import { Card } from "@/components/Page";
import { longDate } from "@/components/times";
import { useNow } from "@/components/useNow";

import classes from "./Billing.module.css";
import { type TopUp, topUpsQuery } from "./queries";
import { instructionLines } from "./transferLines";

/** What the reader announced and has yet to pay, or has paid and nobody confirmed: where to pay, and what to write on it. */
export function AwaitedPayments({ organizationId }: { organizationId: string }) {
  const { data = [] } = useQuery(topUpsQuery(organizationId));
  const waiting = data.filter((one) => one.state === "pending");
  if (waiting.length === 0) return null;
  return (
    <Card title="Waiting for your payment" hint={waiting.length > 1 ? String(waiting.length) : undefined}>
      <ul className={classes.waiting}>
        {waiting.map((one) => (
          <Awaited key={one.id} topUp={one} />
        ))}
      </ul>
    </Card>
  );
}

function Awaited({ topUp }: { topUp: TopUp }) {
  const now = useNow(60_000);
  const amount = dollars(topUp.amount_microusd);
  const isCard = topUp.method === "card";
  return (
    <li>
      <header className={classes.waitingHead}>
        <strong>{amount}</strong>
        <span className={classes.quiet}>
          {isCard ? "by card" : "by bank transfer"}, announced {longDate(topUp.created_at, now)}
        </span>
        <span className={classes.awaits}>{isCard ? "Not paid yet" : "Not received yet"}</span>
      </header>
      {topUp.checkout_url ? <a href={topUp.checkout_url}>Go on to the payment page</a> : null}
      {isCard ? null : (
        <p className={classes.quiet}>
          Transfer this amount and write the reference on it. It becomes credit when the operator confirms that it has arrived.
        </p>
      )}
      {topUp.reference ? (
        <dl className={classes.transfer}>
          <div>
            <dt>Amount</dt>
            <dd>
              {amount}
              <Copy text={amount.replaceAll(/[$,]/g, "")} label="Copy amount" />
            </dd>
          </div>
          <div>
            <dt>Reference</dt>
            <dd>
              <code>{topUp.reference}</code>
              <Copy text={topUp.reference} label="Copy reference" />
            </dd>
          </div>
        </dl>
      ) : null}
      {topUp.instructions ? <Instructions text={topUp.instructions} /> : null}
    </li>
  );
}

/** As the operator wrote them, each line to be copied. */
function Instructions({ text }: { text: string }) {
  return (
    <ul className={classes.instructions} aria-label="Account to pay to">
      {instructionLines(text).map(({ line, value }, at) => (
        <li key={at}>
          <span>{line}</span>
          <Copy text={value} label={`Copy ${value}`} />
        </li>
      ))}
    </ul>
  );
}
