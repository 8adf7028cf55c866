import { Button } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Download } from "lucide-react";

import { useProject } from "@/addresses/useProject";
import { api, body, type Schemas } from "@/api/client";
import { dollars } from "@/components/Money";
import { Card, Page } from "@/components/Page";
import { Empty, ErrorNotice, Waiting } from "@/components/Patterns";
import { Table } from "@/components/Table";
import { clockTime, longDate, zone } from "@/components/times";
import { useNow } from "@/components/useNow";

import classes from "./Audit.module.css";

const PAGE = 100;

/** Who changed what in the organization, newest first. Only admins come here. */
export function Audit() {
  const { project, isAdmin } = useProject();
  if (isAdmin) return <Records organizationId={project.organization_id} />;
  return (
    <Page title="Audit">
      <Card label="Audit">
        <Empty>Only admins see who changed what. Ask one of yours.</Empty>
      </Card>
    </Page>
  );
}

function Records({ organizationId }: { organizationId: string }) {
  const now = useNow(60_000);
  const found = useInfiniteQuery({
    queryKey: ["audit", organizationId],
    queryFn: ({ pageParam }) =>
      body(
        api.GET("/api/v1/organizations/{organization_id}/audit", {
          params: {
            path: { organization_id: organizationId },
            query: { limit: PAGE, ...(pageParam ? { cursor: pageParam } : {}) },
          },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor ?? undefined,
    refetchInterval: 15_000,
  });
  const rows = found.data?.pages.flatMap((one) => one.items) ?? [];
  return (
    <Page
      title="Audit"
      hint={`Of the organization. Times in ${zone}.`}
      actions={
        <Button
          component="a"
          variant="default"
          href={`/api/v1/organizations/${organizationId}/audit/export`}
          download
          leftSection={<Download size={16} strokeWidth={1.5} />}
        >
          CSV
        </Button>
      }
    >
      {found.error && rows.length === 0 ? <ErrorNotice error={found.error} retry={found.refetch} /> : null}
      {found.isPending ? <Waiting /> : null}
      {found.data ? (
        <Card flush label="Audit">
          <Table
            rows={rows}
            rowKey={(row) => row.id}
            phoneLine={by}
            empty="Nothing was changed yet. Keys, members and payments appear here."
            columns={[
              { head: "What", cell: (row) => <code>{row.action}</code> },
              { head: "By", wide: true, cell: (row) => <span className={classes.long}>{by(row)}</span> },
              { head: "Target", wide: true, cell: (row) => <code>{row.target}</code> },
              {
                head: "Detail",
                wide: true,
                cell: (row) => (
                  <span className={classes.long} title={shown(row.details)}>
                    {shown(row.details)}
                  </span>
                ),
              },
              { head: "Time", right: true, cell: (row) => `${longDate(row.at, now)} ${clockTime(row.at)}` },
            ]}
          />
        </Card>
      ) : null}
      {found.hasNextPage ? (
        <Button variant="default" loading={found.isFetchingNextPage} onClick={() => found.fetchNextPage()}>
          Show older
        </Button>
      ) : null}
    </Page>
  );
}

function by(row: Schemas["AuditRecord"]): string {
  return row.actor_email ?? row.actor;
}

/** "scope inference, name my-app": what is empty is left out, and amounts are dollars. */
function shown(details: Record<string, unknown>): string {
  return Object.entries(details)
    .filter(([, value]) => value !== null && value !== "" && !(Array.isArray(value) && value.length === 0))
    .map(([name, value]) => {
      if (name.endsWith("_microusd") && typeof value === "number")
        return `${name.slice(0, -"_microusd".length).replaceAll("_", " ")} ${dollars(value)}`;
      return `${name.replaceAll("_", " ")} ${typeof value === "string" ? value : JSON.stringify(value)}`;
    })
    .join(", ");
}
