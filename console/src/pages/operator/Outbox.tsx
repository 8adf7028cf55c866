import { useQuery } from "@tanstack/react-query";

import { handbook } from "@/addresses/handbook";
import { Problem } from "@/api/problem";
import { Card, Page } from "@/components/Page";
import { Empty, ErrorNotice, Waiting } from "@/components/Patterns";
import { shortTime } from "@/components/times";
import { useNow } from "@/components/useNow";

import classes from "./Operator.module.css";
import { outboxQuery } from "./queries";

/** Mails of the last day, for as long as no mail server is set up. */
export function Outbox() {
  const { data: mails, error } = useQuery(outboxQuery);
  const now = useNow(30_000);
  const isClosed = error instanceof Problem && error.code === "outbox_closed";
  return (
    <Page title="Outbox" learn={handbook.mail} hint="Mails of the last day, while no mail server is set up.">
      <Card flush label="Outbox">
        {isClosed ? <Empty>{error.message}</Empty> : null}
        {error && !isClosed ? <ErrorNotice error={error} /> : null}
        {!mails && !error ? <Waiting /> : null}
        {mails?.length === 0 ? <Empty>No mail was written in the last day.</Empty> : null}
        <ul className={classes.mails}>
          {mails?.map((mail) => (
            <li key={mail.id}>
              <details className={classes.mail}>
                <summary>
                  <strong>{mail.subject}</strong>
                  <span className={classes.quiet}>to {mail.to}</span>
                  <time dateTime={mail.created_at}>{shortTime(mail.created_at, now)}</time>
                </summary>
                <pre>{mail.text}</pre>
              </details>
            </li>
          ))}
        </ul>
      </Card>
    </Page>
  );
}
