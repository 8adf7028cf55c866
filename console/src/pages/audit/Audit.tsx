import { Button } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Download } from "lucide-react";

import { handbook } from "@/addresses/handbook";
import { useProject } from "@/addresses/useProject";
import { api, body } from "@/api/client";
import { membersQuery, projectsQuery } from "@/api/queries";
import { AuditTable } from "@/components/AuditTable";
import { Card, Page } from "@/components/Page";
import { Empty, ErrorNotice, Waiting } from "@/components/Patterns";
import { zone } from "@/components/times";

const PAGE = 100;

/** Who changed what in the organization, newest first. Only admins come here. */
export function Audit() {
  const { project, organization, isAdmin } = useProject();
  if (isAdmin) return <Records organizationId={project.organization_id} of={organization?.name ?? "the organization"} />;
  return (
    <Page title="Audit" learn={handbook.teams}>
      <Card label="Audit">
        <Empty>Only admins see who changed what. Ask one of yours.</Empty>
      </Card>
    </Page>
  );
}

function Records({ organizationId, of }: { organizationId: string; of: string }) {
  const nameOf = useNames(organizationId);
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
      learn={handbook.teams}
      hint={`Everything that was changed in ${of}, newest first. Times in ${zone}.`}
      actions={
        <Button
          component="a"
          variant="default"
          href={`/api/v1/organizations/${organizationId}/audit/export`}
          download
          leftSection={<Download size={16} strokeWidth={1.5} />}
        >
          Download all as CSV
        </Button>
      }
    >
      {found.error && rows.length === 0 ? <ErrorNotice error={found.error} retry={found.refetch} /> : null}
      {found.isPending ? <Waiting /> : null}
      {found.data ? (
        <Card flush label="Audit">
          <AuditTable rows={rows} nameOf={nameOf} empty="Nothing was changed yet. Containers, keys, members and payments appear here." />
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

/** The names of the organization's projects and members, by their ids. */
function useNames(organizationId: string): (id: string) => string | undefined {
  const projects = useQuery(projectsQuery(organizationId)).data ?? [];
  const members = useQuery(membersQuery(organizationId)).data ?? [];
  return (id) => projects.find((one) => one.id === id)?.name ?? members.find((one) => one.user_id === id)?.email;
}
