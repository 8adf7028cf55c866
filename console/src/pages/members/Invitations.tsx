import { Button } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";

import { projectsQuery } from "@/api/queries";
import { Card } from "@/components/Page";
import { Table } from "@/components/Table";
import { longDate } from "@/components/times";
import { useNow } from "@/components/useNow";

import { Email } from "./Email";
import classes from "./Members.module.css";
import { type Invitation, invitationsQuery, useInvitationAction } from "./queries";

/** Those that were neither accepted nor withdrawn. */
export function Invitations({ organizationId }: { organizationId: string }) {
  const { data: invitations } = useSuspenseQuery(invitationsQuery(organizationId));
  const { data: projects } = useSuspenseQuery(projectsQuery(organizationId));
  const now = useNow(60_000);
  return (
    <Card flush title="Invitations" hint={invitations.length > 0 ? String(invitations.length) : undefined}>
      <Table
        rows={invitations}
        rowKey={(row) => row.id}
        empty="Nobody is invited now. Invite somebody by their e-mail address."
        columns={[
          { head: "E-mail", cell: (row) => <span className={classes.email}><Email address={row.email} /></span> },
          { head: "Role", wide: true, cell: (row) => (row.role === "admin" ? "Admin" : "User") },
          { head: "Project", wide: true, cell: (row) => projects.find((one) => one.id === row.project_id)?.name },
          {
            head: "State",
            wide: true,
            cell: (row) =>
              row.state === "expired" ? (
                <span data-tone="warn">Expired</span>
              ) : (
                `Pending until ${longDate(row.expires_at, now)}`
              ),
          },
          { head: "Actions", right: true, cell: (row) => <Actions organizationId={organizationId} invitation={row} /> },
        ]}
      />
    </Card>
  );
}

function Actions({ organizationId, invitation }: { organizationId: string; invitation: Invitation }) {
  const act = useInvitationAction(organizationId, invitation);
  return (
    <>
      <Button
        variant="subtle"
        color="var(--m-ink-2)"
        size="xs"
        aria-label={`Resend to ${invitation.email}`}
        disabled={act.isPending}
        onClick={() => act.mutate("resend")}
      >
        Resend
      </Button>
      <Button
        variant="subtle"
        color="var(--m-bad)"
        size="xs"
        mr={-12}
        aria-label={`Withdraw ${invitation.email}`}
        disabled={act.isPending}
        onClick={() => act.mutate("withdraw")}
      >
        Withdraw
      </Button>
    </>
  );
}
