import { Button, SegmentedControl, Textarea, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Download, Pencil } from "lucide-react";
import { useState } from "react";

import { messageOf, Problem } from "@/api/problem";
import { FormDialog } from "@/components/FormDialog";
import { Money } from "@/components/Money";
import { Card } from "@/components/Page";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { Table } from "@/components/Table";
import { longDate } from "@/components/times";
import { useNow } from "@/components/useNow";

import { type BillingDetails, detailsQuery, invoicesQuery, receiptsQuery, usePutDetails } from "./documentQueries";

/** What an accountant asks for: an invoice of each month, a receipt of each payment. */
export function Documents({ organizationId }: { organizationId: string }) {
  const [kind, setKind] = useState("invoices");
  const [editing, setEditing] = useState(false);
  const { data: details } = useQuery(detailsQuery(organizationId));
  return (
    <Card
      flush
      title="Documents"
      action={
        <>
          {details ? (
            <Button
              size="xs"
              variant="subtle"
              color="var(--m-ink-2)"
              leftSection={<Pencil size={14} strokeWidth={1.5} />}
              onClick={() => setEditing(true)}
            >
              Billing details
            </Button>
          ) : null}
          <SegmentedControl
            aria-label="Which documents"
            value={kind}
            onChange={setKind}
            data={[
              { value: "invoices", label: "Invoices" },
              { value: "receipts", label: "Receipts" },
            ]}
          />
        </>
      }
    >
      {kind === "invoices" ? <Invoices organizationId={organizationId} /> : <Receipts organizationId={organizationId} />}
      {editing && details ? (
        <Details organizationId={organizationId} details={details} close={() => setEditing(false)} />
      ) : null}
    </Card>
  );
}

function Invoices({ organizationId }: { organizationId: string }) {
  const { data, error, refetch } = useQuery(invoicesQuery(organizationId));
  if (error && !data) return <ErrorNotice error={error} retry={refetch} />;
  if (!data) return <Waiting />;
  return (
    <Table
      rows={data}
      rowKey={(row) => row.month}
      empty="No hours were bought yet. There is an invoice for each month in which they are."
      columns={[
        { head: "Month", cell: (row) => monthName(row.month) },
        { head: "Number", wide: true, cell: (row) => row.number ?? "open until the month is over" },
        { head: "Total", right: true, cell: (row) => <Money microusd={row.total_microusd} /> },
        {
          head: "Document",
          right: true,
          cell: (row) => <Pdf organizationId={organizationId} path={`invoices/${row.month}`} name={monthName(row.month)} />,
        },
      ]}
    />
  );
}

function Receipts({ organizationId }: { organizationId: string }) {
  const { data, error, refetch } = useQuery(receiptsQuery(organizationId));
  const now = useNow(60_000);
  if (error && !data) return <ErrorNotice error={error} retry={refetch} />;
  if (!data) return <Waiting />;
  return (
    <Table
      rows={data}
      rowKey={(row) => row.id}
      empty="Nothing was paid yet. There is a receipt for each payment."
      columns={[
        { head: "Date", cell: (row) => longDate(row.at, now) },
        { head: "What", wide: true, cell: (row) => row.description },
        { head: "Number", wide: true, cell: (row) => row.number ?? "being written" },
        { head: "Total", right: true, cell: (row) => <Money microusd={row.total_microusd} /> },
        {
          head: "Document",
          right: true,
          cell: (row) => <Pdf organizationId={organizationId} path={`receipts/${row.id}`} name={row.number ?? row.id} />,
        },
      ]}
    />
  );
}

function Pdf({ organizationId, path, name }: { organizationId: string; path: string; name: string }) {
  return (
    <Button
      component="a"
      size="xs"
      variant="subtle"
      mr={-12}
      href={`/api/v1/organizations/${organizationId}/billing/${path}/pdf`}
      download
      aria-label={`PDF of ${name}`}
      leftSection={<Download size={14} strokeWidth={1.5} />}
    >
      PDF
    </Button>
  );
}

/** "November 2026" of "2026-11" */
function monthName(month: string): string {
  return new Date(`${month}-01T00:00:00Z`).toLocaleDateString("en-GB", { month: "long", year: "numeric", timeZone: "UTC" });
}

function Details({ organizationId, details, close }: { organizationId: string; details: BillingDetails; close: () => void }) {
  const [changed, setChanged] = useState(details);
  const put = usePutDetails(organizationId, close);
  const fields = put.error instanceof Problem ? put.error.fields() : {};
  const set = (part: Partial<BillingDetails>) => setChanged({ ...changed, ...part });
  return (
    <FormDialog
      opened
      close={close}
      title="Billing details"
      action="Save"
      submit={() => put.mutate(changed)}
      busy={put.isPending}
    >
      <TextInput
        label="Name"
        description="Empty: the organization's."
        data-autofocus
        value={changed.name}
        onChange={(event) => set({ name: event.currentTarget.value })}
        error={fields["name"] ?? (put.error && Object.keys(fields).length === 0 ? messageOf(put.error) : null)}
      />
      <Textarea
        label="Address"
        rows={4}
        value={changed.address}
        onChange={(event) => set({ address: event.currentTarget.value })}
        error={fields["address"]}
      />
      <TextInput
        label="Tax number"
        description="Documents that are issued from now on show these."
        value={changed.tax_id}
        onChange={(event) => set({ tax_id: event.currentTarget.value })}
        error={fields["tax_id"]}
      />
    </FormDialog>
  );
}
