import { Button, TextInput } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { messageOf, Problem } from "@/api/problem";
import { FormDialog } from "@/components/FormDialog";
import { fullMoment } from "@/components/times";
import { dollars } from "@/components/Money";
import { Card, Facts } from "@/components/Page";
import { ErrorNotice, Waiting } from "@/components/Patterns";

import { inCents } from "./cents";
import classes from "./Machines.module.css";
import { earningsQuery, payoutAccountQuery, useWish, wishes } from "./queries";

/** How much there is of what was earned, and where it is sent. */
export function PayoutCard({ organizationId }: { organizationId: string }) {
  const earnings = useInfiniteQuery(earningsQuery(organizationId));
  const { data: account, error, refetch } = useQuery(payoutAccountQuery(organizationId));
  const [changing, setChanging] = useState(false);
  const earned = earnings.data?.pages[0];
  if ((error && !account) || (earnings.error && !earned)) return <ErrorNotice error={error ?? earnings.error} retry={() => void refetch()} />;
  if (!account || !earned) return <Waiting />;
  return (
    <Card
      title="Payouts"
      action={
        <Button size="xs" variant="default" onClick={() => setChanging(true)}>
          {account.account ? "Change the account" : "Name an account"}
        </Button>
      }
    >
      <Facts
        items={[
          ["Held: a bank may take it back", inCents(earned.held_microusd)],
          ["Payable", inCents(earned.payable_microusd)],
          ["Requested", dollars(earned.requested_microusd)],
          ["Sent so far", dollars(earned.paid_microusd)],
          ...(earned.owed_microusd > 0
            ? ([["Taken back after it was sent", dollars(earned.owed_microusd)]] as [string, string][])
            : []),
          ["Smallest payout", dollars(earned.least_payout_microusd)],
          ["Account", account.account ? <code key="account">… {account.account}</code> : "none named"],
        ]}
      />
      {account.frozen_until ? (
        <p className={classes.frozen}>
          The account was changed recently. Nothing is sent before {fullMoment(account.frozen_until)}.
        </p>
      ) : null}
      {changing ? <NameAccount organizationId={organizationId} close={() => setChanging(false)} /> : null}
    </Card>
  );
}

/** Where to send it. Of what is written here only the end is ever shown again. */
export function NameAccount({ organizationId, close }: { organizationId: string; close: () => void }) {
  const [holder, setHolder] = useState("");
  const [account, setAccount] = useState("");
  const [bank, setBank] = useState("");
  const name = useWish(
    "earnings",
    () => wishes.nameAccount(organizationId, { holder: holder.trim(), account: account.trim(), bank: bank.trim() }),
    "The account is named. All admins get a mail.",
    close,
  );
  const fields = name.error instanceof Problem ? name.error.fields() : {};
  const other = name.error && Object.keys(fields).length === 0 ? messageOf(name.error) : null;
  return (
    <FormDialog
      opened
      close={close}
      title="Account for payouts"
      action="Save the account"
      submit={() => name.mutate(undefined)}
      busy={name.isPending}
      disabled={!holder.trim() || !account.trim()}
    >
      <p>All admins get a mail, and nothing is sent for seven days. A payout that was asked for is called off.</p>
      <TextInput
        label="Holder"
        description="As the bank knows them."
        data-autofocus
        maxLength={140}
        autoComplete="off"
        value={holder}
        onChange={(event) => setHolder(event.currentTarget.value)}
        error={fields["holder"] ?? other}
      />
      <TextInput
        label="IBAN or account number"
        description="Kept encrypted. Its last four characters are shown again."
        maxLength={42}
        autoComplete="off"
        spellCheck={false}
        value={account}
        onChange={(event) => setAccount(event.currentTarget.value)}
        error={fields["account"]}
      />
      <TextInput
        label="Bank"
        description="The BIC, where the account alone does not name the bank."
        maxLength={140}
        autoComplete="off"
        value={bank}
        onChange={(event) => setBank(event.currentTarget.value)}
        error={fields["bank"]}
      />
    </FormDialog>
  );
}
