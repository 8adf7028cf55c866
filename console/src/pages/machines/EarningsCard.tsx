import { Button, SegmentedControl } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Download } from "lucide-react";

import { dollars, Money } from "@/components/Money";
import { Card } from "@/components/Page";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import type { Tone } from "@/components/state";
import { Table } from "@/components/Table";
import { clockTime, longDate } from "@/components/times";
import { useNow } from "@/components/useNow";

import { earningsQuery, type Payout, payoutsQuery, statementsQuery } from "./queries";

export type Shown = "entries" | "payouts" | "statements";

interface EarningsCardProps {
  organizationId: string;
  shown: Shown;
  show: (what: Shown) => void;
}

/** Every movement of what was earned, what was sent of it, and a statement for each month. */
export function EarningsCard({ organizationId, shown, show }: EarningsCardProps) {
  return (
    <Card
      flush
      title="Earnings"
      action={
        <SegmentedControl
          aria-label="What of the earnings"
          value={shown}
          onChange={(value) => show(value as Shown)}
          data={[
            { value: "entries", label: "Entries" },
            { value: "payouts", label: "Payouts" },
            { value: "statements", label: "Statements" },
          ]}
        />
      }
    >
      {shown === "entries" ? <Entries organizationId={organizationId} /> : null}
      {shown === "payouts" ? <Payouts organizationId={organizationId} /> : null}
      {shown === "statements" ? <Statements organizationId={organizationId} /> : null}
    </Card>
  );
}

function Entries({ organizationId }: { organizationId: string }) {
  const found = useInfiniteQuery(earningsQuery(organizationId));
  const now = useNow(60_000);
  if (found.error && !found.data) return <ErrorNotice error={found.error} retry={found.refetch} />;
  if (!found.data) return <Waiting />;
  return (
    <>
      <Table
        rows={found.data.pages.flatMap((one) => one.entries)}
        rowKey={(row) => row.id}
        empty="Nothing has been earned yet. Each hour in which your machines served requests becomes an entry."
        columns={[
          { head: "Time", cell: (row) => `${longDate(row.at, now)} ${clockTime(row.at)}` },
          { head: "What", wide: true, cell: (row) => row.description },
          { head: "Machine", wide: true, cell: (row) => row.machine_name ?? row.machine_id ?? "" },
          {
            head: "Amount, USD",
            right: true,
            cell: (row) => (
              <span data-tone={row.amount_microusd > 0 ? "ok" : undefined}>
                {row.amount_microusd > 0 ? "+" : ""}
                {dollars(row.amount_microusd).replace("$", "")}
              </span>
            ),
          },
        ]}
      />
      {found.hasNextPage ? (
        <Button variant="default" m={16} loading={found.isFetchingNextPage} onClick={() => found.fetchNextPage()}>
          Show older
        </Button>
      ) : null}
    </>
  );
}

const PAYOUTS: Record<Payout["state"], { word: string; tone: Tone }> = {
  requested: { word: "Requested", tone: "warn" },
  confirmed: { word: "Sent", tone: "ok" },
  refused: { word: "Refused", tone: "bad" },
};

function Payouts({ organizationId }: { organizationId: string }) {
  const { data, error, refetch } = useQuery(payoutsQuery(organizationId));
  const now = useNow(60_000);
  if (error && !data) return <ErrorNotice error={error} retry={refetch} />;
  if (!data) return <Waiting />;
  return (
    <Table
      rows={data}
      rowKey={(row) => row.id}
      empty="No payout has been requested yet."
      columns={[
        { head: "Date", cell: (row) => longDate(row.decided_at ?? row.created_at, now) },
        { head: "State", cell: (row) => <span data-tone={PAYOUTS[row.state].tone}>{PAYOUTS[row.state].word}</span> },
        { head: "Account", wide: true, cell: (row) => <code>… {row.account}</code> },
        { head: "Reference or reason", wide: true, cell: (row) => row.reference ?? row.reason ?? "" },
        { head: "Amount", right: true, cell: (row) => <Money microusd={row.amount_microusd} /> },
      ]}
    />
  );
}

function Statements({ organizationId }: { organizationId: string }) {
  const { data, error, refetch } = useQuery(statementsQuery(organizationId));
  if (error && !data) return <ErrorNotice error={error} retry={refetch} />;
  if (!data) return <Waiting />;
  return (
    <Table
      rows={data}
      rowKey={(row) => row.month}
      empty="Nothing has been earned yet. Each month with earnings gets a statement."
      columns={[
        { head: "Month", cell: (row) => monthAndYear(row.month) },
        { head: "Number", wide: true, cell: (row) => row.number ?? "open until the month is over" },
        { head: "Earned", right: true, cell: (row) => <Money microusd={row.total_microusd} /> },
        {
          head: "Document",
          right: true,
          cell: (row) => (
            <Button
              component="a"
              size="xs"
              variant="subtle"
              mr={-12}
              href={`/api/v1/organizations/${organizationId}/earnings/statements/${row.month}/pdf`}
              download
              aria-label={`PDF of ${monthAndYear(row.month)}`}
              leftSection={<Download size={14} strokeWidth={1.5} />}
            >
              PDF
            </Button>
          ),
        },
      ]}
    />
  );
}

function monthAndYear(month: string): string {
  return new Date(`${month}-01T00:00:00Z`).toLocaleDateString("en-GB", { month: "long", year: "numeric", timeZone: "UTC" });
}
