import { SegmentedControl } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { Suspense, useState } from "react";

import { handbook } from "@/addresses/handbook";
import { paths } from "@/addresses/paths";
import { Copy } from "@/components/Copy";
import { LinkTo } from "@/components/LinkTo";
import { dollars, Money } from "@/components/Money";
import { Card, Page } from "@/components/Page";
import { Waiting } from "@/components/Patterns";
import { type Column, Table } from "@/components/Table";
import { longDate, zone } from "@/components/times";
import { useNow } from "@/components/useNow";

import classes from "./Operator.module.css";
import { DecidePayout, SentAllTheSame } from "./PayoutDecisions";
import { obstacleOf } from "./payoutObstacle";
import { type Payout, payoutsQuery } from "./queries";

type State = Payout["state"];

const EMPTY: Record<State, string> = {
  requested: "No payout is waiting. When an owner of machines requests one, it appears here and you get a mail.",
  confirmed: "No payout has been sent yet.",
  refused: "No payout has been refused.",
};

/** What owners of machines asked for: the operator makes the transfer, and says so. */
export function Payouts() {
  const [state, setState] = useState<State>("requested");
  return (
    <Page
      title="Payouts"
      learn={handbook.communityMachines}
      hint={`Earnings of community machines. Make the transfer at your bank, then mark it as sent. Times in ${zone}.`}
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
      <Suspense fallback={<Waiting />}>
        <PayoutCard state={state} />
      </Suspense>
    </Page>
  );
}

function PayoutCard({ state }: { state: State }) {
  const { data: payouts } = useSuspenseQuery(payoutsQuery(state));
  const now = useNow(60_000);
  const columns: Column<Payout>[] = [
    {
      head: "Organization",
      cell: (row) => (
        <LinkTo className={classes.name} to={paths.operatorOrganization(row.organization_id)}>
          {row.organization_name}
        </LinkTo>
      ),
    },
    { head: "Account", wide: true, cell: (row) => <Account payout={row} /> },
    { head: "Requested", wide: true, cell: (row) => longDate(row.created_at, now) },
    { head: "Amount", right: true, cell: (row) => <Money microusd={row.amount_microusd} /> },
  ];
  if (state === "requested") {
    columns.push({ head: "Status", wide: true, cell: (row) => <Status payout={row} now={now} /> });
    columns.push({ head: "Actions", right: true, cell: (row) => <DecidePayout payout={row} obstacle={obstacleOf(row, now)} /> });
  }
  if (state === "confirmed")
    columns.push({ head: "Reference", right: true, wide: true, cell: (row) => <span className={classes.note}>{row.reference}</span> });
  if (state === "refused") {
    columns.push({ head: "Reason", wide: true, cell: (row) => <span className={classes.note}>{row.reason}</span> });
    columns.push({ head: "Actions", right: true, cell: (row) => <SentAllTheSame payout={row} doubt={`It was refused: ${row.reason ?? ""}`} /> });
  }
  return (
    <Card flush label="Payouts">
      <Table
        rows={payouts}
        rowKey={(row) => row.id}
        empty={EMPTY[state]}
        columns={columns}
      />
      {state === "requested" && payouts.length > 1 ? <p className={classes.sum}>{sumOf(payouts, now)}</p> : null}
    </Card>
  );
}

/** Whole, as the transfer needs it, for as long as it is to be made. */
function Account({ payout }: { payout: Payout }) {
  const { account_number: account, holder, bank } = payout;
  if (!account) return <code>… {payout.account}</code>;
  return (
    <span className={classes.twoLines}>
      <span>
        <code>{account}</code> <Copy text={account} label="Copy the account" />
      </span>
      <small>{[holder, bank].filter(Boolean).join(", ")}</small>
    </span>
  );
}

function Status({ payout, now }: { payout: Payout; now: Date }) {
  const obstacle = obstacleOf(payout, now);
  if (!obstacle) return <span data-tone="ok">Ready to send</span>;
  return (
    <span className={classes.twoLines}>
      <span data-tone="warn">{obstacle.word}</span>
      <small>{obstacle.reason}</small>
    </span>
  );
}

/** "$12.00 in 3 payouts, 1 of them on hold" */
function sumOf(payouts: Payout[], now: Date): string {
  const sum = dollars(payouts.reduce((total, one) => total + one.amount_microusd, 0));
  const held = payouts.filter((one) => obstacleOf(one, now)?.onHold).length;
  return `${sum} in ${payouts.length} payouts${held > 0 ? `, ${held} of them on hold` : ""}`;
}
