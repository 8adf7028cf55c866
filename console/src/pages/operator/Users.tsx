import { useSuspenseQuery } from "@tanstack/react-query";
import { Fragment, useState } from "react";

import { paths } from "@/addresses/paths";
import { LinkTo } from "@/components/LinkTo";
import { Card, Page } from "@/components/Page";
import { Table } from "@/components/Table";
import { longDate } from "@/components/times";
import { useNow } from "@/components/useNow";

import { CopiedCode } from "./CopiedCode";
import { Filter } from "./Filter";
import classes from "./Operator.module.css";
import { usersQuery } from "./queries";
import { useOrganizationName } from "./useOrganizationName";
import { UserActions } from "./UserActions";

export function Users() {
  const { data: users } = useSuspenseQuery(usersQuery);
  const nameOf = useOrganizationName();
  const [text, setText] = useState("");
  const wanted = text.trim().toLowerCase();
  const shown = users.filter((one) => `${one.email} ${one.id}`.toLowerCase().includes(wanted));
  const now = useNow(60_000);
  return (
    <Page
      title="Users"
      hint={`${users.length} in all`}
      actions={<Filter label="Filter users" placeholder="E-mail or id" text={text} setText={setText} />}
    >
      <Card flush label="Users">
        <Table
          rows={shown}
          rowKey={(row) => row.id}
          empty="No user has this e-mail or id."
          columns={[
            {
              head: "E-mail",
              cell: (row) => (
                <span className={classes.person}>
                  <span>{row.email}</span>
                  {row.is_operator ? <span className={classes.badge}>Operator</span> : null}
                </span>
              ),
            },
            {
              head: "Organization",
              cell: (row) => (
                <span className={classes.note}>
                  {row.organization_ids.length === 0 ? "none" : null}
                  {row.organization_ids.map((id, index) => (
                    <Fragment key={id}>
                      {index > 0 ? ", " : null}
                      <LinkTo to={paths.operatorOrganization(id)}>{nameOf(id)}</LinkTo>
                    </Fragment>
                  ))}
                </span>
              ),
            },
            {
              head: "Id",
              wide: true,
              cell: (row) => <CopiedCode text={row.id} label={`Copy the id of ${row.email}`} />,
            },
            { head: "Created", wide: true, cell: (row) => longDate(row.created_at, now) },
            { head: "Actions", right: true, cell: (row) => <UserActions user={row} /> },
          ]}
        />
      </Card>
    </Page>
  );
}
