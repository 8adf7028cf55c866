import { TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { paths } from "@/addresses/paths";
import { api, body } from "@/api/client";
import { messageOf } from "@/api/problem";
import { containersQuery, type Organization, type Project, projectsQuery } from "@/api/queries";
import { ConfirmByTyping } from "@/components/ConfirmByTyping";
import { FormDialog } from "@/components/FormDialog";
import { done, failed } from "@/components/toasts";

import { useRenameOrganization } from "./CreateProject";

/** Mounted while it is open, so that it begins with the name as it is now. */
export function RenameProject({ project, close }: { project: Project; close: () => void }) {
  const queries = useQueryClient();
  const rename = useMutation({
    mutationFn: (name: string) =>
      body(api.PATCH("/api/v1/projects/{project_id}", { params: { path: { project_id: project.id } }, body: { name } })),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["projects"] });
      close();
    },
  });
  return (
    <Rename what="project" now={project.name} hint="Endpoint URLs and keys stay as they are." {...{ rename, close }} />
  );
}

export function RenameOrganization({ organization, close }: { organization: Organization; close: () => void }) {
  const rename = useRenameOrganization(organization.id, close);
  return <Rename what="organization" now={organization.name} hint="Changes everywhere. Its id stays, and so does what is already issued." {...{ rename, close }} />;
}

interface RenameProps {
  what: string;
  now: string;
  hint: string;
  rename: { mutate: (name: string) => void; isPending: boolean; error: Error | null };
  close: () => void;
}

function Rename({ what, now, hint, rename, close }: RenameProps) {
  const [name, setName] = useState(now);
  const written = name.trim();
  return (
    <FormDialog
      opened
      close={close}
      title={`Rename ${what}`}
      action="Rename"
      submit={() => rename.mutate(written)}
      busy={rename.isPending}
      disabled={!written || written === now}
    >
      <TextInput
        label="Name"
        description={hint}
        data-autofocus
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        error={rename.error ? messageOf(rename.error) : null}
        autoComplete="off"
        spellCheck={false}
      />
    </FormDialog>
  );
}

export function DeleteProject({ project, opened, close }: { project: Project; opened: boolean; close: () => void }) {
  const containers = useQuery(containersQuery(project.id)).data ?? [];
  const navigate = useNavigate();
  const queries = useQueryClient();
  const remove = useMutation({
    mutationFn: () =>
      body(
        api.DELETE("/api/v1/projects/{project_id}", {
          params: { path: { project_id: project.id }, query: { name: project.name } },
        }),
      ),
    onSuccess: async () => {
      queries.setQueryData(projectsQuery(project.organization_id).queryKey, (all) => all?.filter((one) => one.id !== project.id));
      queries.removeQueries({ queryKey: ["projects", "of all organizations"] });
      close();
      await navigate({ to: paths.home() });
      done(`${project.name} is deleted.`);
    },
    onError: failed,
  });
  return (
    <ConfirmByTyping
      opened={opened}
      close={close}
      title={`Delete ${project.name}`}
      name={project.name}
      action="Delete project"
      busy={remove.isPending}
      confirm={() => remove.mutate()}
    >
      {goes(containers.length)} Payments stay on record, and logs until their days are over.
    </ConfirmByTyping>
  );
}

function goes(containers: number): string {
  if (containers === 0) return "Its keys stop working at once.";
  const them = containers === 1 ? "Its container stops and is deleted" : `Its ${containers} containers stop and are deleted`;
  return `${them}, and its keys stop working at once.`;
}
