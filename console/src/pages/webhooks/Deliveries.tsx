import { useQuery } from "@tanstack/react-query";

import { Card } from "@/components/Page";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { Table } from "@/components/Table";
import { clockTime, longDate } from "@/components/times";
import { useNow } from "@/components/useNow";

import { type Delivery, deliveriesQuery, type Webhook } from "./queries";
import classes from "./Webhooks.module.css";

/** What was sent to one address in the last seven days, and how it went. */
export function Deliveries({ organizationId, webhook }: { organizationId: string; webhook: Webhook }) {
  const { data: deliveries, error, refetch } = useQuery(deliveriesQuery(organizationId, webhook));
  const now = useNow(30_000);
  return (
    <Card flush title="Deliveries" hint={`to ${webhook.url}, last seven days`}>
      {error && !deliveries ? <ErrorNotice error={error} retry={refetch} /> : null}
      {!deliveries && !error ? <Waiting /> : null}
      {deliveries ? (
        <Table
          rows={deliveries}
          rowKey={(row) => row.id}
          empty="Nothing was sent yet. Send a test, or change a container."
          phoneLine={(row) => outcome(row)}
          columns={[
            { head: "Event", cell: (row) => <code>{row.event}</code> },
            { head: "State", cell: (row) => <State delivery={row} /> },
            {
              head: "Answer",
              wide: true,
              cell: (row) => (
                <span className={classes.answer} title={outcome(row)}>
                  {outcome(row)}
                </span>
              ),
            },
            { head: "Tries", right: true, wide: true, cell: (row) => row.tries },
            { head: "Time", right: true, cell: (row) => `${longDate(row.created_at, now)} ${clockTime(row.created_at)}` },
          ]}
        />
      ) : null}
    </Card>
  );
}

function State({ delivery }: { delivery: Delivery }) {
  if (delivery.delivered_at) return <span data-tone="ok">Delivered</span>;
  if (!delivery.next_try_at) return <span data-tone="bad">Given up</span>;
  return <span data-tone={delivery.tries === 0 ? "accent" : "warn"}>{delivery.tries === 0 ? "On its way" : "Tries again"}</span>;
}

function outcome(delivery: Delivery): string {
  if (delivery.error) return delivery.error;
  if (delivery.status) return `answered ${delivery.status}`;
  return delivery.next_try_at ? `next try ${clockTime(delivery.next_try_at)}` : "";
}
