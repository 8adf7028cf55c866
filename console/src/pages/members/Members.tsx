import { Button, Select } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { UserPlus } from "lucide-react";
import { useState } from "react";

import { handbook } from "@/addresses/handbook";
import { useProject } from "@/addresses/useProject";
import { membersQuery, meQuery, projectsQuery } from "@/api/queries";
import { Card, Page } from "@/components/Page";
import { Empty } from "@/components/Patterns";
import { Table } from "@/components/Table";
import { longDate } from "@/components/times";
import { useNow } from "@/components/useNow";

import { Email } from "./Email";
import { Invitations } from "./Invitations";
import { Invite } from "./Invite";
import classes from "./Members.module.css";
import { type Member, useChangeRole } from "./queries";
import { RemoveMember } from "./RemoveMember";

/** Who belongs to the organization. Only admins come here. */
export function Members() {
  const { project, organization, isAdmin } = useProject();
  const [inviting, setInviting] = useState(false);
  if (!isAdmin) {
    return (
      <Page title="Members">
        <Card label="Members">
          <Empty>Only admins see the members of an organization. Ask one of yours.</Empty>
        </Card>
      </Page>
    );
  }
  return (
    <Page
      learn={handbook.teams}
      title="Members"
      hint={`Of ${organization?.name ?? "the organization"}. Admins pay, invite and see every project; users work in theirs.`}
      actions={
        <Button leftSection={<UserPlus size={16} strokeWidth={1.5} />} onClick={() => setInviting(true)}>
          Invite
        </Button>
      }
    >
      <MemberTable organizationId={project.organization_id} />
      <Invitations organizationId={project.organization_id} />
      <Invite
        organizationId={project.organization_id}
        projectId={project.id}
        opened={inviting}
        close={() => setInviting(false)}
      />
    </Page>
  );
}

function MemberTable({ organizationId }: { organizationId: string }) {
  const { data: members } = useSuspenseQuery(membersQuery(organizationId));
  const { data: projects } = useSuspenseQuery(projectsQuery(organizationId));
  const { data: me } = useSuspenseQuery(meQuery);
  const now = useNow(60_000);
  const nameOf = (id: string) => projects.find((one) => one.id === id)?.name ?? id;
  return (
    <Card flush title="Members" hint={String(members.length)}>
      <Table
        rows={members}
        rowKey={(row) => row.user_id}
        empty="Nobody is here."
        columns={[
          {
            head: "E-mail",
            cell: (row) => (
              <span className={classes.email}>
                <Email address={row.email} />
                {row.user_id === me.user?.id ? <span className={classes.quiet}> (you)</span> : null}
              </span>
            ),
          },
          { head: "Role", wide: true, cell: (row) => <RoleSelect organizationId={organizationId} member={row} /> },
          {
            head: "Projects",
            wide: true,
            cell: (row) => (row.project_ids ? row.project_ids.map(nameOf).join(", ") || "None yet" : "All"),
          },
          { head: "Joined", wide: true, cell: (row) => longDate(row.joined_at, now) },
          {
            head: "Actions",
            right: true,
            cell: (row) => (
              <RemoveMember organizationId={organizationId} member={row} isMe={row.user_id === me.user?.id} />
            ),
          },
        ]}
      />
    </Card>
  );
}

function RoleSelect({ organizationId, member }: { organizationId: string; member: Member }) {
  const change = useChangeRole(organizationId, member);
  return (
    <Select
      className={classes.role}
      aria-label={`Role of ${member.email}`}
      data={[
        { value: "admin", label: "Admin" },
        { value: "user", label: "User" },
      ]}
      value={member.role}
      disabled={change.isPending}
      onChange={(value) => value && value !== member.role && change.mutate(value as Member["role"])}
    />
  );
}
