import { Button, Tooltip } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { FormDialog } from "@/components/FormDialog";
import { fullMoment } from "@/components/times";
import { dollars } from "@/components/Money";
import { ErrorNotice } from "@/components/Patterns";

import { inCents } from "./cents";
import { NameAccount } from "./PayoutCard";
import { type Earnings, earningsQuery, type PayoutAccount, payoutAccountQuery, useWish, wishes } from "./queries";

/** All that is payable, in whole cents. */
export function RequestPayout({ organizationId }: { organizationId: string }) {
  const earned = useInfiniteQuery(earningsQuery(organizationId)).data?.pages[0];
  const { data: account } = useQuery(payoutAccountQuery(organizationId));
  const [asking, setAsking] = useState<"account" | "payout" | null>(null);
  if (!earned || !account) return null;
  const amount = inCents(earned.payable_microusd);
  const obstacle = obstacleOf(earned, account);
  const close = () => setAsking(null);
  return (
    <>
      <Tooltip label={obstacle} disabled={!obstacle}>
        <Button
          // Not `disabled`: whoever cannot see the pointer reaches it, and hears why.
          aria-disabled={obstacle ? true : undefined}
          data-disabled={obstacle ? true : undefined}
          aria-description={obstacle ?? undefined}
          onClick={() => (obstacle ? undefined : setAsking(account.account ? "payout" : "account"))}
        >
          Request payout of {amount}
        </Button>
      </Tooltip>
      {asking === "account" ? <NameAccount organizationId={organizationId} close={close} /> : null}
      {asking === "payout" ? <Ask organizationId={organizationId} amount={amount} account={account} close={close} /> : null}
    </>
  );
}

/** Why nothing can be asked for now; null where it can be. */
function obstacleOf(earned: Earnings, account: PayoutAccount): string | null {
  if (earned.requested_microusd > 0) return `A payout of ${dollars(earned.requested_microusd)} is requested already.`;
  if (earned.payable_microusd < earned.least_payout_microusd)
    return `The smallest payout is ${dollars(earned.least_payout_microusd)}.`;
  if (account.frozen_until) return `The account was changed. Nothing is sent before ${fullMoment(account.frozen_until)}.`;
  return null;
}

interface AskProps {
  organizationId: string;
  amount: string;
  account: PayoutAccount;
  close: () => void;
}

function Ask({ organizationId, amount, account, close }: AskProps) {
  const ask = useWish("earnings", () => wishes.payOut(organizationId), `A payout of ${amount} is requested.`, close);
  return (
    <FormDialog
      opened
      close={close}
      title="Request a payout"
      action={`Request ${amount}`}
      submit={() => ask.mutate(undefined)}
      busy={ask.isPending}
    >
      <p>
        The operator sends {amount} by bank transfer to the account that ends with <code>{account.account}</code>, and confirms
        it. Admins then get a mail.
      </p>
      {ask.error ? <ErrorNotice error={ask.error} /> : null}
    </FormDialog>
  );
}
