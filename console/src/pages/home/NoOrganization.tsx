import { Button, Group, Stack, TextInput } from "@mantine/core";
import { useMutation, useQueryClient, useSuspenseQuery } from "@tanstack/react-query";
import { LogOut } from "lucide-react";
import { useState } from "react";

import { paths } from "@/addresses/paths";
import { api, body } from "@/api/client";
import { messageOf } from "@/api/problem";
import { meQuery } from "@/api/queries";
import { LinkTo } from "@/components/LinkTo";
import { Logo } from "@/frame/Logo";
import { signOut } from "@/frame/signOut";

import classes from "./Welcome.module.css";

/** For whoever left their last organization, was removed from it, or was in it when it was deleted: what they can do from here. */
export function NoOrganization() {
  const { data: me } = useSuspenseQuery(meQuery);
  return (
    <main className={classes.page}>
      <Logo size={32} />
      <h1 className={classes.title}>You belong to no organization</h1>
      <p className={classes.text}>
        You left the last one, were removed from it, or it was deleted. Projects, containers and credit belong to an
        organization, so begin with a new one.
      </p>
      <CreateOrganization />
      <p className={classes.text}>
        Were you invited to one? Open the link in the mail that went to {me.user?.email}. Without that mail, ask an admin of
        the organization to invite you.
      </p>
      <Group gap={8} justify="space-between">
        <Group gap={16}>
          <LinkTo to={paths.account()}>Account</LinkTo>
          {me.user?.is_operator ? <LinkTo to={paths.operator()}>Operator area</LinkTo> : null}
        </Group>
        <Button
          variant="subtle"
          color="var(--m-ink-2)"
          leftSection={<LogOut size={16} strokeWidth={1.5} aria-hidden />}
          onClick={() => signOut()}
        >
          Sign out
        </Button>
      </Group>
    </main>
  );
}

function CreateOrganization() {
  const [name, setName] = useState("");
  const queries = useQueryClient();
  const create = useMutation({
    mutationFn: () => body(api.POST("/api/v1/organizations", { body: { name: name.trim() } })),
    // Home then shows what to do in it.
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["organizations"] });
      await queries.invalidateQueries({ queryKey: ["projects"] });
    },
  });
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        create.mutate();
      }}
    >
      <Stack gap={16}>
        <TextInput
          label="Name of the organization"
          description="Who pays, and whom you invite. You can rename it later."
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          error={create.error ? messageOf(create.error) : null}
          autoComplete="off"
        />
        <Group justify="flex-end">
          <Button type="submit" loading={create.isPending} disabled={!name.trim()}>
            Create organization
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
