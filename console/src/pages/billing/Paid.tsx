import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";

import { dollars } from "@/components/Money";

import classes from "./Billing.module.css";
import { paidTopUpQuery, type TopUp } from "./queries";

/** For whoever comes back from the payment page: whether the money has arrived. */
export function Paid({ organizationId }: { organizationId: string }) {
  const { paid } = useSearch({ strict: false });
  return typeof paid === "string" ? <Arrives organizationId={organizationId} topUpId={paid} /> : null;
}

function Arrives({ organizationId, topUpId }: { organizationId: string; topUpId: string }) {
  const queries = useQueryClient();
  const [since] = useState(Date.now);
  const { data: topUp } = useQuery(paidTopUpQuery(organizationId, topUpId, since));
  const arrived = topUp?.state === "confirmed";
  useEffect(() => {
    if (arrived) void queries.invalidateQueries({ queryKey: ["billing", organizationId] });
  }, [arrived, organizationId, queries]);
  if (!topUp) return null;
  const amount = dollars(topUp.amount_microusd);
  return (
    <p className={classes.paid} role="status" data-good={arrived || undefined}>
      {sentence(topUp.state, amount)}
    </p>
  );
}

function sentence(state: TopUp["state"], amount: string): string {
  if (state === "confirmed") return `${amount} have arrived and are part of your credit.`;
  if (state === "pending") return `Your payment of ${amount} is not confirmed yet. It becomes credit by itself once it is.`;
  return `Your payment of ${amount} was not completed. Top up again if you still want to.`;
}
