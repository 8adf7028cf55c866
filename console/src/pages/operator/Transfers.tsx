import { Button, SegmentedControl } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { Suspense, useState } from "react";

import { handbook } from "@/addresses/handbook";
import { paths } from "@/addresses/paths";
import { messageOf } from "@/api/problem";
import { Confirm } from "@/components/Confirm";
import { FormDialog } from "@/components/FormDialog";
import { LinkTo } from "@/components/LinkTo";
import { dollars, Money } from "@/components/Money";
import { MoneyInput } from "@/components/MoneyInput";
import { Card, Facts, Page } from "@/components/Page";
import { Waiting } from "@/components/Patterns";
import { type Column, Table } from "@/components/Table";
import { longDate, since } from "@/components/times";
import { failed } from "@/components/toasts";
import { useNow } from "@/components/useNow";

import { CopiedCode } from "./CopiedCode";
import classes from "./Operator.module.css";
import { decisions, type Transfer, type TransferState, transfersQuery, useDecision } from "./queries";
import { useOrganizationName } from "./useOrganizationName";

const EMPTY = {
  pending: "No transfer is awaited. One appears here when a customer announces it.",
  confirmed: "No transfer has been received yet.",
  expired: "No transfer has been marked as not received.",
};

/** Transfers that customers announced: the operator looks at the bank account, and says what arrived. */
export function Transfers() {
  const [state, setState] = useState<TransferState>("pending");
  return (
    <Page
      learn={handbook.payments}
      title="Bank transfers"
      hint="Announced by customers. Look for the reference in your bank account."
      actions={
        <SegmentedControl
          aria-label="Which transfers"
          value={state}
          onChange={(value) => setState(value as TransferState)}
          data={[
            { value: "pending", label: "Awaited" },
            { value: "confirmed", label: "Received" },
            { value: "expired", label: "Not received" },
          ]}
        />
      }
    >
      <Card flush label="Bank transfers">
        <Suspense fallback={<Waiting />}>
          <TransferTable state={state} />
        </Suspense>
      </Card>
    </Page>
  );
}

function TransferTable({ state }: { state: TransferState }) {
  const { data: transfers } = useSuspenseQuery(transfersQuery(state));
  const nameOf = useOrganizationName();
  const now = useNow(60_000);
  const columns: Column<Transfer>[] = [
    {
      head: "Reference",
      cell: (row) => (row.reference ? <CopiedCode text={row.reference} label="Copy the reference" /> : "–"),
    },
    {
      head: "Organization",
      wide: true,
      cell: (row) => (
        <LinkTo className={classes.name} to={paths.operatorOrganization(row.organization_id)}>
          {nameOf(row.organization_id)}
        </LinkTo>
      ),
    },
    { head: "Transfer", wide: true, cell: (row) => (row.transfer === "international" ? "International" : "Local") },
    { head: "Announced", wide: true, cell: (row) => announced(row, now) },
    { head: "Amount", right: true, cell: (row) => <Money microusd={row.amount_microusd} /> },
  ];
  if (state === "pending")
    columns.push({ head: "Actions", right: true, cell: (row) => <Decide transfer={row} from={nameOf(row.organization_id)} /> });
  else columns.push({ head: "Decided", right: true, wide: true, cell: (row) => (row.decided_at ? longDate(row.decided_at, now) : "") });
  if (state === "confirmed")
    columns.push({ head: "Received", right: true, cell: (row) => <Money microusd={row.received_microusd ?? 0} /> });
  return (
    <Table
      rows={transfers}
      rowKey={(row) => row.id}
      empty={EMPTY[state]}
      columns={columns}
    />
  );
}

/** How long one is awaited says whether it still comes. */
function announced({ state, created_at: at }: Transfer, now: Date): string {
  return state === "pending" ? `${longDate(at, now)}, ${since(at, now)} ago` : longDate(at, now);
}

function Decide({ transfer, from }: { transfer: Transfer; from: string }) {
  const [asking, setAsking] = useState<"confirm" | "expire" | null>(null);
  const close = () => setAsking(null);
  const expire = useDecision(() => decisions.expire(transfer), `${transfer.reference ?? "It"} is marked as not received.`, close);
  return (
    <span className={classes.rowActions}>
      <Button size="xs" variant="subtle" color="var(--m-bad)" onClick={() => setAsking("expire")}>
        Not received…
      </Button>
      <Button size="xs" variant="default" onClick={() => setAsking("confirm")}>
        Mark as received…
      </Button>
      {asking === "confirm" ? <ConfirmArrival transfer={transfer} from={from} close={close} /> : null}
      <Confirm
        opened={asking === "expire"}
        close={close}
        title={`${transfer.reference ?? "The transfer"} was not received`}
        action="Mark as not received"
        confirm={() => expire.mutate(undefined, { onError: failed })}
        busy={expire.isPending}
      >
        It is no longer awaited, and nothing is credited. Should the money arrive later, grant the amount as credit.
      </Confirm>
    </span>
  );
}

function ConfirmArrival({ transfer, from, close }: { transfer: Transfer; from: string; close: () => void }) {
  const [received, setReceived] = useState<number | null>(transfer.amount_microusd);
  const confirm = useDecision(
    () => decisions.confirm(transfer, received ?? 0),
    `${dollars(received ?? 0)} credited to ${from}.`,
    close,
  );
  return (
    <FormDialog
      opened
      close={close}
      title="Mark a bank transfer as received"
      action={`Credit ${dollars(received ?? 0)}`}
      submit={() => confirm.mutate(undefined)}
      busy={confirm.isPending}
      disabled={!received}
    >
      <Facts
        items={[
          ["From", from],
          ["Reference", <code key="reference">{transfer.reference}</code>],
          ["Announced", dollars(transfer.amount_microusd)],
        ]}
      />
      <MoneyInput
        label="Amount received in USD"
        description="This much becomes credit. Change it where a bank took a fee, or where more arrived."
        data-autofocus
        initialMicrousd={received}
        change={setReceived}
        error={confirm.error ? messageOf(confirm.error) : null}
      />
    </FormDialog>
  );
}
