import { useSuspenseQuery } from "@tanstack/react-query";

import { Card, Page } from "@/components/Page";
import { Table } from "@/components/Table";
import { longDate } from "@/components/times";
import { useNow } from "@/components/useNow";

import classes from "./Operator.module.css";
import { usersQuery } from "./queries";
import { useOrganizationName } from "./useOrganizationName";

export function Users() {
  const { data: users } = useSuspenseQuery(usersQuery);
  const nameOf = useOrganizationName();
  const now = useNow(60_000);
  return (
    <Page title="Users" hint={String(users.length)}>
      <Card flush label="Users">
        <Table
          rows={users}
          rowKey={(row) => row.id}
          empty="Nobody signed up yet."
          phoneLine={(row) => `since ${longDate(row.created_at, now)}`}
          columns={[
            { head: "E-mail", cell: (row) => <span className={classes.name}>{row.email}</span> },
            {
              head: "Organizations",
              cell: (row) => <span className={classes.note}>{row.organization_ids.map(nameOf).join(", ") || "none"}</span>,
            },
            { head: "Id", wide: true, cell: (row) => <code>{row.id}</code> },
            { head: "Kind", wide: true, cell: (row) => (row.is_operator ? <span data-tone="accent">Operator</span> : "User") },
            { head: "Since", wide: true, cell: (row) => longDate(row.created_at, now) },
          ]}
        />
      </Card>
    </Page>
  );
}
