import { Button } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { useState } from "react";

import { meQuery } from "@/api/queries";
import { Confirm } from "@/components/Confirm";
import { Card, Page } from "@/components/Page";
import { Table } from "@/components/Table";
import { longDate, since, zone } from "@/components/times";
import { useNow } from "@/components/useNow";

import classes from "./Account.module.css";
import { clientName } from "./client";
import { identitiesQuery, type Session, sessionsQuery, useEndOtherSessions, useEndSession } from "./queries";

/** Where one is signed in, and with what. */
export function Account() {
  const { data: me } = useSuspenseQuery(meQuery);
  return (
    <Page title="Account" hint={`Signed in as ${me.user?.email ?? ""}`}>
      <Sessions />
      <Identities email={me.user?.email ?? ""} />
    </Page>
  );
}

function Sessions() {
  const { data: sessions } = useSuspenseQuery(sessionsQuery);
  const [asking, setAsking] = useState(false);
  const endOthers = useEndOtherSessions(() => setAsking(false));
  const now = useNow(30_000);
  const others = sessions.filter((one) => !one.current);
  return (
    <Card
      flush
      title="Sessions"
      hint={`${sessions.length} · times in ${zone}`}
      action={
        others.length > 0 ? (
          <Button size="xs" variant="default" onClick={() => setAsking(true)}>
            Sign out everywhere else
          </Button>
        ) : null
      }
    >
      <Table
        rows={sessions}
        rowKey={(row) => row.id}
        empty="No session."
        columns={[
          {
            head: "Device",
            cell: (row) => (
              <span className={classes.client} title={row.client}>
                {clientName(row.client)}
                {row.current ? <span className={classes.here}> This device</span> : null}
              </span>
            ),
          },
          { head: "Last used", wide: true, cell: (row) => lastUse(row, now) },
          { head: "Signed in", wide: true, cell: (row) => longDate(row.created_at, now) },
          { head: "Expires", wide: true, cell: (row) => longDate(row.expires_at, now) },
          ...(others.length > 0
            ? [{ head: "Actions", right: true, cell: (row: Session) => (row.current ? null : <SignOut session={row} />) }]
            : []),
        ]}
      />
      <Confirm
        opened={asking}
        close={() => setAsking(false)}
        title="Sign out everywhere else"
        action="Sign out"
        confirm={() => endOthers.mutate()}
        busy={endOthers.isPending}
      >
        {others.length === 1 ? "One other session ends" : `${others.length} other sessions end`} at once, the command line
        included. You stay signed in here.
      </Confirm>
    </Card>
  );
}

function lastUse(session: Session, now: Date): string {
  return session.current ? "Now" : `${since(session.last_used_at, now)} ago`;
}

function SignOut({ session }: { session: Session }) {
  const end = useEndSession(session);
  return (
    <Button
      size="xs"
      variant="subtle"
      color="var(--m-bad)"
      mr={-12}
      loading={end.isPending}
      aria-label={`Sign out ${clientName(session.client)}`}
      onClick={() => end.mutate()}
    >
      Sign out
    </Button>
  );
}

function Identities({ email }: { email: string }) {
  const { data: identities } = useSuspenseQuery(identitiesQuery);
  const now = useNow(60_000);
  const rows = [{ title: "Code by e-mail", email, linked_at: "" }, ...identities];
  return (
    <Card flush title="Ways to sign in" hint={String(rows.length)}>
      <Table
        rows={rows}
        rowKey={(row) => `${row.title} ${row.email}`}
        empty=""
        columns={[
          { head: "Method", cell: (row) => <span className={classes.client}>{row.title}</span> },
          { head: "Account", cell: (row) => <span className={classes.address}>{row.email}</span> },
          {
            head: "Added",
            wide: true,
            cell: (row) => (row.linked_at ? longDate(row.linked_at, now) : "Always on"),
          },
        ]}
      />
    </Card>
  );
}
