import { Button, UnstyledButton } from "@mantine/core";
import { useMutation, useQuery, useQueryClient, useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";

import { paths } from "@/addresses/paths";
import { api, body } from "@/api/client";
import { Problem } from "@/api/problem";
import { meQuery } from "@/api/queries";
import { LinkTo } from "@/components/LinkTo";
import { Facts } from "@/components/Page";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { wholeTime } from "@/components/times";
import { Logo } from "@/frame/Logo";
import { signOut } from "@/frame/signOut";

import classes from "./Invitation.module.css";

/** What a link in an invitation opens, for the address that it was sent to. */
export function Invitation() {
  const { token } = useParams({ strict: false }) as { token: string };
  const found = useQuery({
    queryKey: ["invitation", token],
    queryFn: () => body(api.GET("/api/v1/invitations/{token}", { params: { path: { token } } })),
  });
  const { data: me } = useSuspenseQuery(meQuery);
  const accept = useAccept(token);
  if (found.error) return <Refused error={found.error} token={token} />;
  if (!found.data) return <Waiting />;
  const { organization_name: organization, project_name: project, role, invited_by: inviter, expires_at } = found.data;
  return (
    <main className={classes.page}>
      <Logo size={32} />
      <h1 className={classes.title}>Join {organization}</h1>
      <p className={classes.text}>{inviter} invites you to this organization on Moorage, where it runs its containers.</p>
      <div className={classes.facts}>
        <Facts
          items={[
            ["You join as", me.user?.email],
            ["Role", role === "admin" ? "Admin" : "User"],
            ["You may", MAY[role]],
            ...(project ? [["First project", project] as [string, string]] : []),
            ["Accept by", wholeTime(expires_at)],
          ]}
        />
      </div>
      {accept.error ? <ErrorNotice error={accept.error} /> : null}
      <Button size="lg" fullWidth loading={accept.isPending} onClick={() => accept.mutate()}>
        Accept the invitation
      </Button>
      <p className={classes.others}>
        <LinkTo to={paths.home()}>Not now</LinkTo>
        <UnstyledButton className={classes.link} onClick={() => signOut(paths.invitation(token))}>
          Use another account
        </UnstyledButton>
      </p>
    </main>
  );
}

const MAY = {
  admin: "do everything: containers of all projects, billing, members",
  user: "work with the containers and API keys of your projects, and see what is spent",
};

function useAccept(token: string) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  return useMutation({
    mutationFn: () => body(api.POST("/api/v1/invitations/{token}/accept", { params: { path: { token } } })),
    onSuccess: async ({ project_id: projectId }) => {
      await Promise.all([
        queries.invalidateQueries({ queryKey: ["organizations"] }),
        queries.invalidateQueries({ queryKey: ["projects"] }),
      ]);
      await navigate({ to: projectId ? paths.service(projectId) : paths.home() });
    },
  });
}

/** The same for a link that ended and for the wrong account: it does not say what is behind it. */
function Refused({ error, token }: { error: unknown; token: string }) {
  const { data: me } = useSuspenseQuery(meQuery);
  if (!(error instanceof Problem) || error.status !== 404) {
    return (
      <main className={classes.page}>
        <h1 className={classes.title}>This page could not be shown.</h1>
        <ErrorNotice error={error} />
      </main>
    );
  }
  return (
    <main className={classes.page}>
      <Logo size={32} />
      <h1 className={classes.title}>There is no invitation for you here.</h1>
      <p className={classes.text}>
        You are signed in as {me.user?.email}. If the invitation went to another address, sign out and open the link
        again. If it is older than seven days, ask for a new one.
      </p>
      <Button onClick={() => signOut(paths.invitation(token))}>Sign out and open it again</Button>
    </main>
  );
}
