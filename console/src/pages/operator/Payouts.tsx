import { Button, Checkbox, SegmentedControl, Textarea, TextInput } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { Suspense, useState } from "react";

import { messageOf } from "@/api/problem";
import { Copy } from "@/components/Copy";
import { FormDialog } from "@/components/FormDialog";
import { dollars, Money } from "@/components/Money";
import { Card, Facts, Page } from "@/components/Page";
import { Waiting } from "@/components/Patterns";
import { type Column, Table } from "@/components/Table";
import { dayAndTime, longDate } from "@/components/times";
import { useNow } from "@/components/useNow";

import classes from "./Operator.module.css";
import { decisions, type Payout, payoutsQuery, useDecision } from "./queries";

type State = Payout["state"];

const EMPTY: Record<State, string> = {
  requested: "Nobody waits for a payout. One appears here, and a mail comes, when an owner of machines asks for it.",
  confirmed: "None was sent yet.",
  refused: "None was refused.",
};

/** What owners of machines asked for: the operator makes the transfer, and says so. */
export function Payouts() {
  const [state, setState] = useState<State>("requested");
  return (
    <Page
      title="Payouts"
      hint="What owners of community machines earned. Make the transfer, then confirm it."
      actions={
        <SegmentedControl
          aria-label="Which payouts"
          value={state}
          onChange={(value) => setState(value as State)}
          data={[
            { value: "requested", label: "To send" },
            { value: "confirmed", label: "Sent" },
            { value: "refused", label: "Refused" },
          ]}
        />
      }
    >
      <Card flush label="Payouts">
        <Suspense fallback={<Waiting />}>
          <PayoutTable state={state} />
        </Suspense>
      </Card>
    </Page>
  );
}

function PayoutTable({ state }: { state: State }) {
  const { data: payouts } = useSuspenseQuery(payoutsQuery(state));
  const now = useNow(60_000);
  const columns: Column<Payout>[] = [
    { head: "Organization", cell: (row) => <span className={classes.name}>{row.organization_name}</span> },
    { head: "Account", wide: true, cell: (row) => <code>{row.account_number ?? `… ${row.account}`}</code> },
    { head: "Asked for", wide: true, cell: (row) => longDate(row.created_at, now) },
    { head: "Amount", right: true, cell: (row) => <Money microusd={row.amount_microusd} /> },
  ];
  if (state === "requested") {
    columns.push({ head: "Can be sent", wide: true, cell: (row) => <Obstacle payout={row} now={now} /> });
    columns.push({ head: "Actions", right: true, cell: (row) => <Decide payout={row} /> });
  }
  if (state === "confirmed")
    columns.push({ head: "Reference", right: true, wide: true, cell: (row) => <span className={classes.note}>{row.reference}</span> });
  if (state === "refused") {
    columns.push({ head: "Reason", wide: true, cell: (row) => <span className={classes.note}>{row.reason}</span> });
    columns.push({ head: "Actions", right: true, cell: (row) => <SentAllTheSame payout={row} /> });
  }
  return (
    <Table
      rows={payouts}
      rowKey={(row) => row.id}
      empty={EMPTY[state]}
      columns={columns}
      phoneLine={(row) => (state === "requested" ? (obstacleOf(row, now) ?? row.holder) : `… ${row.account}`)}
    />
  );
}

function Obstacle({ payout, now }: { payout: Payout; now: Date }) {
  const obstacle = obstacleOf(payout, now);
  return obstacle ? <span data-tone="warn">{obstacle}</span> : "all of it";
}

/** Why it is not to be sent, in a few words; null where it can be. */
function obstacleOf({ covered_microusd: covered, amount_microusd: amount, frozen_until: frozen }: Payout, now: Date): string | null {
  if (frozen) return `account changed, frozen until ${dayAndTime(new Date(frozen), now)}`;
  return covered !== null && covered < amount ? `${dollars(covered)}: the rest was taken back` : null;
}

function Decide({ payout }: { payout: Payout }) {
  const [asking, setAsking] = useState<"confirm" | "refuse" | null>(null);
  const close = () => setAsking(null);
  return (
    <span className={classes.rowActions}>
      <Button size="xs" variant="subtle" color="var(--m-bad)" onClick={() => setAsking("refuse")}>
        Refuse
      </Button>
      <Button size="xs" variant="default" onClick={() => setAsking("confirm")}>
        Confirm
      </Button>
      {asking === "confirm" ? <ConfirmPayout payout={payout} close={close} /> : null}
      {asking === "refuse" ? <RefusePayout payout={payout} close={close} /> : null}
    </span>
  );
}

/** It had left the bank before it was refused, or the account was changed meanwhile. */
function SentAllTheSame({ payout }: { payout: Payout }) {
  const [asking, setAsking] = useState(false);
  return (
    <>
      <Button size="xs" variant="subtle" onClick={() => setAsking(true)}>
        It was sent
      </Button>
      {asking ? <ConfirmPayout payout={payout} close={() => setAsking(false)} /> : null}
    </>
  );
}

function ConfirmPayout({ payout, close }: { payout: Payout; close: () => void }) {
  const now = useNow(60_000);
  const [reference, setReference] = useState("");
  const [sent, setSent] = useState(false);
  const { state, holder, account_number: account, bank, organization_name: organization } = payout;
  const obstacle = state === "refused" ? `it was refused: ${payout.reason ?? ""}` : obstacleOf(payout, now);
  const amount = dollars(payout.amount_microusd);
  const confirm = useDecision(
    () => decisions.confirmPayout(payout, reference.trim(), obstacle !== null && sent),
    `${amount} booked as sent to ${organization}.`,
    close,
  );
  return (
    <FormDialog
      opened
      close={close}
      title="Confirm a payout"
      action={`Book ${amount} as sent`}
      submit={() => confirm.mutate(undefined)}
      busy={confirm.isPending}
      disabled={reference.trim() === "" || (obstacle !== null && !sent)}
    >
      <Facts
        items={[
          ["For", organization],
          ["Amount", amount],
          ...(holder ? ([["Holder", holder]] as [string, string][]) : []),
          [
            "Account",
            account ? (
              <span key="account">
                <code>{account}</code> <Copy text={account} label="Copy the account" />
              </span>
            ) : (
              `… ${payout.account}`
            ),
          ],
          ...(bank ? ([["Bank", bank]] as [string, string][]) : []),
        ]}
      />
      <p>Make the transfer at your bank first. What is booked is not taken back.</p>
      <TextInput
        label="Reference of the transfer"
        description="The organization finds it by this."
        data-autofocus
        maxLength={140}
        value={reference}
        onChange={(event) => setReference(event.currentTarget.value)}
        error={confirm.error ? messageOf(confirm.error) : null}
      />
      {obstacle ? (
        <Checkbox
          label="It has been sent already"
          description={`It should not have been (${obstacle}). Later earnings make up for it.`}
          checked={sent}
          onChange={(event) => setSent(event.currentTarget.checked)}
        />
      ) : null}
    </FormDialog>
  );
}

function RefusePayout({ payout, close }: { payout: Payout; close: () => void }) {
  const [reason, setReason] = useState("");
  const refuse = useDecision(
    () => decisions.refusePayout(payout, reason.trim()),
    `The payout to ${payout.organization_name} is refused.`,
    close,
  );
  return (
    <FormDialog
      opened
      destructive
      close={close}
      title="Refuse a payout"
      action="Refuse"
      submit={() => refuse.mutate(undefined)}
      busy={refuse.isPending}
      disabled={reason.trim().length < 3}
    >
      <p>Nothing is sent. {dollars(payout.amount_microusd)} stays earned, and can be asked for again.</p>
      <Textarea
        label="Reason"
        description="The organization's admins get it by mail."
        data-autofocus
        rows={3}
        maxLength={300}
        value={reason}
        onChange={(event) => setReason(event.currentTarget.value)}
        error={refuse.error ? messageOf(refuse.error) : null}
      />
    </FormDialog>
  );
}
