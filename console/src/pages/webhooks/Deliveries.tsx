import { useQuery } from "@tanstack/react-query";

import { Card } from "@/components/Page";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { Table } from "@/components/Table";
import { clockTime, longDate, zone } from "@/components/times";
import { useNow } from "@/components/useNow";

import { standingOf, subjectOf } from "./delivery";
import { deliveriesQuery, type Webhook } from "./queries";
import { useContainerNames } from "./useContainerNames";
import classes from "./Webhooks.module.css";

/** What was sent to one address in the last seven days, and how it went. */
export function Deliveries({ organizationId, webhook }: { organizationId: string; webhook: Webhook }) {
  const { data: deliveries, error, refetch } = useQuery(deliveriesQuery(organizationId, webhook));
  const names = useContainerNames(organizationId);
  const now = useNow(30_000);
  return (
    <Card flush title="Deliveries" hint={`To ${webhook.url}, last seven days. Times in ${zone}.`}>
      {error && !deliveries ? <ErrorNotice error={error} retry={refetch} /> : null}
      {!deliveries && !error ? <Waiting /> : null}
      {deliveries ? (
        <Table
          rows={deliveries}
          rowKey={(row) => row.id}
          empty="Nothing has been sent yet. Send a test, or change a container."
          columns={[
            { head: "Event", cell: (row) => <code>{row.event}</code> },
            {
              head: "About",
              wide: true,
              cell: (row) => {
                const subject = subjectOf(row, (id) => names.get(id));
                return subject ? <span className={classes.about}>{subject}</span> : null;
              },
            },
            {
              head: "State",
              cell: (row) => {
                const { word, tone } = standingOf(row, now);
                return <span data-tone={tone}>{word}</span>;
              },
            },
            {
              head: "Response",
              wide: true,
              cell: (row) => {
                const { response } = standingOf(row, now);
                return response ? <span className={classes.answer}>{response}</span> : null;
              },
            },
            { head: "Tries", right: true, wide: true, cell: (row) => row.tries },
            { head: "Time", right: true, wide: true, cell: (row) => `${longDate(row.created_at, now)} ${clockTime(row.created_at)}` },
          ]}
        />
      ) : null}
    </Card>
  );
}
