import { useSuspenseQuery } from "@tanstack/react-query";
import { useState } from "react";

import { paths } from "@/addresses/paths";
import { LinkTo } from "@/components/LinkTo";
import { Card, Page } from "@/components/Page";
import { Table } from "@/components/Table";
import { longDate } from "@/components/times";
import { useNow } from "@/components/useNow";

import { CopiedCode } from "./CopiedCode";
import { Filter } from "./Filter";
import classes from "./Operator.module.css";
import { OrganizationActions } from "./OrganizationActions";
import { allOrganizationsQuery, type OrganizationSummary } from "./queries";

/** Every organization of the installation: who is there, never what is theirs. */
export function Organizations() {
  const { data: organizations } = useSuspenseQuery(allOrganizationsQuery);
  const [text, setText] = useState("");
  const now = useNow(60_000);
  const wanted = text.trim().toLowerCase();
  const shown = organizations.filter((one) => `${one.name} ${one.id}`.toLowerCase().includes(wanted));
  return (
    <Page title="Organizations" hint={`${organizations.length} in all`} actions={<Filter label="Filter organizations" placeholder="Name or id" text={text} setText={setText} />}>
      <Card flush label="Organizations">
        <Table
          rows={shown}
          rowKey={(row) => row.id}
          empty={organizations.length === 0 ? "No organization yet. One appears here when its first admin signs up." : "No organization has this name or id."}
          columns={[
            {
              head: "Name",
              cell: (row) => (
                <LinkTo className={classes.name} to={paths.operatorOrganization(row.id)}>
                  {row.name}
                </LinkTo>
              ),
            },
            {
              head: "Id",
              wide: true,
              cell: (row) => <CopiedCode text={row.id} label={`Copy the id of ${row.name}`} />,
            },
            { head: "State", cell: (row) => <State organization={row} /> },
            { head: "Members", right: true, wide: true, cell: (row) => row.member_count },
            { head: "Projects", right: true, wide: true, cell: (row) => row.project_count },
            { head: "Created", wide: true, cell: (row) => longDate(row.created_at, now) },
            { head: "Actions", right: true, cell: (row) => <OrganizationActions organization={row} /> },
          ]}
        />
      </Card>
    </Page>
  );
}

function State({ organization }: { organization: OrganizationSummary }) {
  if (organization.deleted_at) return <span data-tone="idle">Deleted</span>;
  if (organization.suspended_at) return <span data-tone="bad">Suspended</span>;
  return <span data-tone="ok">Active</span>;
}
