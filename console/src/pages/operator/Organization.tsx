import { Button } from "@mantine/core";
import { useInfiniteQuery, useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { ArrowLeft } from "lucide-react";

import { aboutReason } from "@/addresses/handbook";
import { paths } from "@/addresses/paths";
import { api, body } from "@/api/client";
import { AuditTable } from "@/components/AuditTable";
import { Copy } from "@/components/Copy";
import { DayBars } from "@/components/DayBars";
import { byDay, lastDays } from "@/components/days";
import { Figures } from "@/components/Figures";
import { HandbookLink } from "@/components/HandbookLink";
import { LinkTo } from "@/components/LinkTo";
import { Money } from "@/components/Money";
import { Card, Page } from "@/components/Page";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { lookOf } from "@/components/state";
import { StateBadge } from "@/components/StateBadge";
import { Table } from "@/components/Table";
import { dayAndTime, longDate, since, zone } from "@/components/times";
import { useNow } from "@/components/useNow";

import classes from "./Organization.module.css";
import { OrganizationActions } from "./OrganizationActions";
import { containersOfQuery, type OrganizationDetail, organizationQuery, peopleOfQuery } from "./queries";

const DAYS = 30;
const AUDIT_PAGE = 20;

/** One organization for whoever runs the installation: what it has, spends and runs, who is in it, what was changed. */
export function Organization() {
  const { organizationId } = useParams({ strict: false }) as { organizationId: string };
  const { data: organization } = useSuspenseQuery(organizationQuery(organizationId));
  const now = useNow(60_000);
  return (
    <Page
      title={organization.name}
      hint={
        <span className={classes.about}>
          <code>{organization.id}</code>
          <Copy text={organization.id} label="Copy id" />
          {organization.deleted_at ? (
            <span>Deleted {longDate(organization.deleted_at, now)}; its books stay</span>
          ) : organization.suspended_at ? (
            <span data-tone="bad">Suspended since {longDate(organization.suspended_at, now)}</span>
          ) : (
            <span>Created {longDate(organization.created_at, now)}</span>
          )}
        </span>
      }
      actions={
        <>
          <Button
            component={LinkTo}
            to={paths.operator("organizations")}
            variant="default"
            leftSection={<ArrowLeft size={16} strokeWidth={1.5} />}
          >
            Organizations
          </Button>
          <OrganizationActions organization={organization} />
        </>
      }
    >
      <Money30Days organization={organization} />
      <Containers organizationId={organizationId} />
      <People organizationId={organizationId} />
      <Changes organizationId={organizationId} />
    </Page>
  );
}

function Money30Days({ organization }: { organization: OrganizationDetail }) {
  const now = useNow(60_000);
  const dates = lastDays(DAYS);
  const spend = organization.spend.map(({ day, amount_microusd: microusd }) => ({ day, microusd }));
  return (
    <>
      <Card label="In numbers">
        <Figures
          figures={[
            {
              name: "Balance",
              value: <Money microusd={organization.balance_microusd} />,
              note: (
                <>
                  <Money microusd={organization.held_microusd} /> of it on hold for starts
                </>
              ),
            },
            {
              name: "Spending now",
              value: <Money microusd={organization.burn_per_hour_microusd} per="h" />,
              note: lasting(organization, now),
            },
            { name: "Spent this month", value: <Money microusd={organization.spent_this_month_microusd} />, note: "calendar month in UTC" },
            { name: "Paid in", value: <Money microusd={organization.paid_in_microusd} />, note: "by card and transfer, in all" },
          ]}
        />
      </Card>
      <Card title="Spent by day" hint={`The last ${DAYS} days, in UTC.`}>
        <DayBars label="Spent by day" dates={dates} parts={[{ label: "Spent", color: "series-1", values: byDay(dates, spend) }]} />
      </Card>
    </>
  );
}

function lasting({ runs_out_at: end, burn_per_hour_microusd: burn }: OrganizationDetail, now: Date): string {
  if (end) return `runs out ${dayAndTime(new Date(end), now)}`;
  return burn > 0 ? "lasts for years" : "nothing is spent";
}

function Containers({ organizationId }: { organizationId: string }) {
  const { data, error, refetch } = useQuery(containersOfQuery(organizationId));
  const now = useNow(60_000);
  if (error && !data) return <ErrorNotice error={error} retry={refetch} />;
  if (!data) return <Waiting rows={3} height={36} />;
  return (
    <Card flush title="Containers" hint={`${data.length} in all. Only the organization sees their settings and logs.`}>
      <Table
        rows={troubledFirst(data)}
        rowKey={(row) => row.id}
        empty="No container yet."
        columns={[
          { head: "Name", cell: (row) => <span className={classes.name}>{row.name}</span> },
          { head: "Project", wide: true, cell: (row) => row.project_name },
          { head: "State", cell: (row) => <StateBadge bare state={lookOf(row)} /> },
          { head: "For", wide: true, right: true, cell: (row) => since(row.state_since, now) },
          { head: "Reason", wider: true, cell: (row) => (row.reason ? <HandbookLink to={aboutReason(row.reason)}>{inWords(row.reason)}</HandbookLink> : "") },
          { head: "Instance type", wide: true, cell: (row) => row.instance_type },
          { head: "Ready", right: true, cell: (row) => `${row.replicas.ready} of ${row.replicas.desired}` },
          {
            head: "Replica, per hour",
            wide: true,
            right: true,
            cell: (row) => <Money microusd={row.price_per_hour_microusd} />,
          },
        ]}
      />
    </Card>
  );
}

/** What fails or waits is why somebody looks here. */
const TROUBLED = ["FAILED", "PENDING"];

function troubledFirst<Row extends { state: string }>(rows: Row[]): Row[] {
  const rank = ({ state }: Row) => (TROUBLED.includes(state) ? TROUBLED.indexOf(state) : TROUBLED.length);
  return rows.toSorted((one, other) => rank(one) - rank(other));
}

/** "No capacity" of "no_capacity" */
function inWords(reason: string): string {
  const words = reason.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function People({ organizationId }: { organizationId: string }) {
  const { data, error, refetch } = useQuery(peopleOfQuery(organizationId));
  const now = useNow(60_000);
  if (error && !data) return <ErrorNotice error={error} retry={refetch} />;
  if (!data) return <Waiting rows={2} height={36} />;
  return (
    <Card flush title="People">
      <Table
        rows={data}
        rowKey={(row) => row.user_id}
        empty="Nobody is a member."
        columns={[
          { head: "E-mail", cell: (row) => <span className={classes.name}>{row.email}</span> },
          { head: "Role", cell: (row) => (row.role === "admin" ? "Admin" : "User") },
          { head: "Id", wide: true, cell: (row) => <code>{row.user_id}</code> },
          { head: "Joined", right: true, cell: (row) => longDate(row.joined_at, now) },
        ]}
      />
    </Card>
  );
}

function Changes({ organizationId }: { organizationId: string }) {
  const found = useInfiniteQuery({
    queryKey: ["operator", "organizations", organizationId, "audit"],
    queryFn: ({ pageParam }) =>
      body(
        api.GET("/api/v1/operator/organizations/{organization_id}/audit", {
          params: {
            path: { organization_id: organizationId },
            query: { limit: AUDIT_PAGE, ...(pageParam ? { cursor: pageParam } : {}) },
          },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor ?? undefined,
    refetchInterval: 15_000,
  });
  const rows = found.data?.pages.flatMap((one) => one.items) ?? [];
  if (found.error && !found.data) return <ErrorNotice error={found.error} retry={found.refetch} />;
  if (!found.data) return <Waiting rows={3} height={36} />;
  return (
    <Card flush title="Audit" hint={`Times in ${zone}.`}>
      <AuditTable rows={rows} empty="No changes yet. What its members and you change appears here." />
      {found.hasNextPage ? (
        <div className={classes.older}>
          <Button variant="default" loading={found.isFetchingNextPage} onClick={() => found.fetchNextPage()}>
            Show older
          </Button>
        </div>
      ) : null}
    </Card>
  );
}
