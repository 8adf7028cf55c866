import { Button, Group, Modal, Stack, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { paths } from "@/addresses/paths";
import { api, body } from "@/api/client";
import { messageOf } from "@/api/problem";

interface CreateProjectProps {
  organizationId: string;
  opened: boolean;
  close: () => void;
}

export function CreateProject({ organizationId, opened, close }: CreateProjectProps) {
  return (
    <Modal opened={opened} onClose={close} title="New project" closeButtonProps={{ "aria-label": "Close" }}>
      <ProjectForm organizationId={organizationId} created={close} cancel={close} />
    </Modal>
  );
}

interface ProjectFormProps {
  organizationId: string;
  /** What the organization is called now, where whoever founded it is to name it too. */
  organizationName?: string;
  created?: () => void;
  cancel?: () => void;
}

export function ProjectForm({ organizationId, organizationName, created, cancel }: ProjectFormProps) {
  const [name, setName] = useState("");
  const [founded, setFounded] = useState(organizationName ?? "");
  const rename = useRenameOrganization(organizationId);
  const navigate = useNavigate();
  const queries = useQueryClient();
  const create = useMutation({
    mutationFn: async () => {
      if (founded.trim() && founded.trim() !== organizationName) await rename.mutateAsync(founded.trim());
      return body(
        api.POST("/api/v1/organizations/{organization_id}/projects", {
          params: { path: { organization_id: organizationId } },
          body: { name: name.trim() },
        }),
      );
    },
    onSuccess: async (project) => {
      await queries.invalidateQueries({ queryKey: ["projects"] });
      created?.();
      await navigate({ to: paths.service(project.id) });
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
        {organizationName === undefined ? null : (
          <TextInput
            label="Organization"
            description="Who pays, and whom you invite. You can rename it later."
            value={founded}
            onChange={(event) => setFounded(event.currentTarget.value)}
            error={rename.isError ? messageOf(rename.error) : null}
          />
        )}
        <TextInput
          label={organizationName === undefined ? "Name" : "Name of the project"}
          description="Containers and API keys belong to a project."
          placeholder="production"
          data-autofocus
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          error={create.isError && !rename.isError ? messageOf(create.error) : null}
        />
        <Group justify="flex-end" gap={8}>
          {cancel ? (
            <Button variant="default" onClick={cancel}>
              Cancel
            </Button>
          ) : null}
          <Button type="submit" loading={create.isPending} disabled={!name.trim()}>
            Create project
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

export function useRenameOrganization(organizationId: string, after?: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (name: string) =>
      body(
        api.PATCH("/api/v1/organizations/{organization_id}", {
          params: { path: { organization_id: organizationId } },
          body: { name },
        }),
      ),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["organizations"] });
      after?.();
    },
  });
}
