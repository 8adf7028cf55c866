import { Button, SegmentedControl } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { Suspense, useState } from "react";

import { handbook } from "@/addresses/handbook";
import { messageOf } from "@/api/problem";
import { Confirm } from "@/components/Confirm";
import { FormDialog } from "@/components/FormDialog";
import { dollars, Money } from "@/components/Money";
import { MoneyInput } from "@/components/MoneyInput";
import { Card, Facts, Page } from "@/components/Page";
import { Waiting } from "@/components/Patterns";
import { type Column, Table } from "@/components/Table";
import { longDate } from "@/components/times";
import { failed } from "@/components/toasts";
import { useNow } from "@/components/useNow";

import classes from "./Operator.module.css";
import { decisions, type Transfer, type TransferState, transfersQuery, useDecision } from "./queries";
import { useOrganizationName } from "./useOrganizationName";

const EMPTY = {
  pending: "Nothing is on its way. A transfer appears here when a customer announces it.",
  confirmed: "None was confirmed yet.",
  expired: "None was given up.",
};

/** Transfers that customers announced: the operator looks at the bank account, and says what arrived. */
export function Transfers() {
  const [state, setState] = useState<TransferState>("pending");
  return (
    <Page
      learn={handbook.payments}
      title="Bank transfers"
      hint="Match the reference with your bank account."
      actions={
        <SegmentedControl
          aria-label="Which transfers"
          value={state}
          onChange={(value) => setState(value as TransferState)}
          data={[
            { value: "pending", label: "On their way" },
            { value: "confirmed", label: "Arrived" },
            { value: "expired", label: "Given up" },
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
    { head: "Reference", cell: (row) => <code>{row.reference}</code> },
    { head: "Organization", wide: true, cell: (row) => <span className={classes.name}>{nameOf(row.organization_id)}</span> },
    { head: "Kind", wide: true, cell: (row) => (row.transfer === "international" ? "International" : "Local") },
    { head: "Announced", wide: true, cell: (row) => longDate(row.created_at, now) },
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
      phoneLine={(row) => nameOf(row.organization_id)}
    />
  );
}

function Decide({ transfer, from }: { transfer: Transfer; from: string }) {
  const [asking, setAsking] = useState<"confirm" | "expire" | null>(null);
  const close = () => setAsking(null);
  const expire = useDecision(() => decisions.expire(transfer), `${transfer.reference ?? "It"} is given up.`, close);
  return (
    <span className={classes.rowActions}>
      <Button size="xs" variant="subtle" color="var(--m-bad)" onClick={() => setAsking("expire")}>
        Give up
      </Button>
      <Button size="xs" variant="default" onClick={() => setAsking("confirm")}>
        Confirm
      </Button>
      {asking === "confirm" ? <ConfirmArrival transfer={transfer} from={from} close={close} /> : null}
      <Confirm
        opened={asking === "expire"}
        close={close}
        title={`Give up ${transfer.reference ?? "the transfer"}`}
        action="Give it up"
        confirm={() => expire.mutate(undefined, { onError: failed })}
        busy={expire.isPending}
      >
        Nothing arrived and nobody waits for it any more. Should it arrive later, give the amount as credit.
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
      title="Confirm a bank transfer"
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
        description="What arrived becomes credit, also where it is more or less than was announced."
        data-autofocus
        initialMicrousd={received}
        change={setReceived}
        error={confirm.error ? messageOf(confirm.error) : null}
      />
    </FormDialog>
  );
}
