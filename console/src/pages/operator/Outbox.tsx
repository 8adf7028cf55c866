import { useQuery } from "@tanstack/react-query";
import { ChevronRight } from "lucide-react";

import { handbook } from "@/addresses/handbook";
import type { Schemas } from "@/api/client";
import { Problem } from "@/api/problem";
import { Copy } from "@/components/Copy";
import { HandbookLink } from "@/components/HandbookLink";
import { Card, Page } from "@/components/Page";
import { Empty, ErrorNotice, Waiting } from "@/components/Patterns";
import { clockTime, longDate, zone } from "@/components/times";
import { useNow } from "@/components/useNow";

import classes from "./Operator.module.css";
import { outboxQuery } from "./queries";

type Mail = Schemas["MailRead"];

/** Mails of the last day, for as long as no mail server is set up. */
export function Outbox() {
  const { data: mails, error } = useQuery(outboxQuery);
  const isClosed = error instanceof Problem && error.code === "outbox_closed";
  return (
    <Page title="Outbox" hint={`Mails of the last day. Times in ${zone}.`}>
      {mails && !isClosed ? (
        <p className={classes.unsent}>
          No mail server is set up, so these mails were not sent. Pass their codes and links on yourself, or set one up.
          <HandbookLink to={handbook.mail}>Set up mail</HandbookLink>
        </p>
      ) : null}
      <Card flush label="Outbox">
        {isClosed ? <Empty>{error.message}</Empty> : null}
        {error && !isClosed ? <ErrorNotice error={error} /> : null}
        {!mails && !error ? <Waiting /> : null}
        {mails?.length === 0 ? <Empty>No mail in the last day. Sign-in codes, invitations and alerts appear here.</Empty> : null}
        <ul className={classes.mails}>
          {mails?.map((mail) => (
            <li key={mail.id}>
              <MailRow mail={mail} />
            </li>
          ))}
        </ul>
      </Card>
    </Page>
  );
}

function MailRow({ mail }: { mail: Mail }) {
  const now = useNow(60_000);
  return (
    <details className={classes.mail}>
      <summary>
        <ChevronRight size={16} strokeWidth={1.5} aria-hidden />
        <strong>{mail.subject}</strong>
        <span className={classes.quiet}>to {mail.to}</span>
        <time dateTime={mail.created_at}>
          {longDate(mail.created_at, now)} {clockTime(mail.created_at)}
        </time>
      </summary>
      <div className={classes.mailText}>
        <pre>{mail.text}</pre>
        <Copy text={mail.text} label="Copy the mail" />
      </div>
    </details>
  );
}
