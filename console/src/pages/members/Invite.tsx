import { Button, Group, Modal, Select, Stack, TextInput } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { useState } from "react";

import { messageOf, Problem } from "@/api/problem";
import { projectsQuery } from "@/api/queries";

import { useInvite } from "./queries";

const ROLES = [
  { value: "user", label: "User: deploys in the projects they join" },
  { value: "admin", label: "Admin: also members, billing, all projects" },
];

interface InviteProps {
  organizationId: string;
  projectId: string;
  opened: boolean;
  close: () => void;
}

export function Invite(props: InviteProps) {
  return (
    <Modal opened={props.opened} onClose={props.close} title="Invite" closeButtonProps={{ "aria-label": "Close" }}>
      <InviteForm {...props} />
    </Modal>
  );
}

function InviteForm({ organizationId, projectId, close }: InviteProps) {
  const { data: projects } = useSuspenseQuery(projectsQuery(organizationId));
  const [email, setEmail] = useState("");
  const [role, setRole] = useState("user");
  const [project, setProject] = useState(projectId);
  const invite = useInvite(organizationId, close);
  const fields = invite.error instanceof Problem ? invite.error.fields() : {};
  const submit = (event: React.FormEvent) => {
    event.preventDefault();
    invite.mutate({ email: email.trim(), role: role === "admin" ? "admin" : "user", project_id: project });
  };
  return (
    <form onSubmit={submit} noValidate>
      <Stack gap={16}>
        <TextInput
          label="E-mail"
          description="The link works for exactly this address, once, for seven days."
          placeholder="name@example.com"
          type="email"
          data-autofocus
          value={email}
          onChange={(event) => setEmail(event.currentTarget.value)}
          error={invite.isError ? (fields["email"] ?? messageOf(invite.error)) : null}
          autoComplete="off"
        />
        <Select label="Role" data={ROLES} value={role} onChange={(value) => value && setRole(value)} />
        <Select
          label="Project"
          description="They join it when they accept."
          data={projects.map((one) => ({ value: one.id, label: one.name }))}
          value={project}
          onChange={(value) => value && setProject(value)}
        />
        <Group justify="flex-end" gap={8}>
          <Button variant="default" onClick={close}>
            Cancel
          </Button>
          <Button type="submit" loading={invite.isPending} disabled={!email.trim()}>
            Send invitation
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
