import { Menu, UnstyledButton } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Check, ChevronsUpDown, Pencil, Plus, Trash2 } from "lucide-react";
import { type ReactNode, useState } from "react";

import { paths } from "@/addresses/paths";
import { useProject } from "@/addresses/useProject";
import { organizationsQuery, projectsQuery, queryClient } from "@/api/queries";
import { failed } from "@/components/toasts";

import { CreateProject } from "./CreateProject";
import { DeleteOrganization } from "./DeleteOrganization";
import classes from "./Frame.module.css";
import { DeleteProject, RenameOrganization, RenameProject } from "./Manage";

export function OrganizationSwitcher() {
  const { organization, isAdmin } = useProject();
  const { data: organizations } = useSuspenseQuery(organizationsQuery);
  const navigate = useNavigate();
  const open = async (organizationId: string) => {
    try {
      const first = (await queryClient.fetchQuery(projectsQuery(organizationId)))[0];
      await navigate({ to: first ? paths.service(first.id) : paths.organization(organizationId) });
    } catch (error) {
      failed(error);
    }
  };
  const [dialog, setDialog] = useState<"rename" | "delete" | null>(null);
  const close = () => setDialog(null);
  if (!organization) return null;
  return (
    <>
      <Switcher
        kind="Organization"
        name={organization.name}
        mark={<span className={classes.initial} data-initial={organization.name.charAt(0).toUpperCase()} aria-hidden />}
        inDialog={dialog !== null}
      >
        {organizations.map((one) => (
          <Menu.Item key={one.id} onClick={() => open(one.id)} rightSection={one.id === organization.id ? <Tick /> : null}>
            {one.name}
          </Menu.Item>
        ))}
        {isAdmin ? (
          <>
            <Menu.Divider />
            <Menu.Item leftSection={<Pencil size={16} strokeWidth={1.5} />} onClick={() => setDialog("rename")}>
              Rename organization
            </Menu.Item>
            <Menu.Item
              color="var(--m-bad)"
              leftSection={<Trash2 size={16} strokeWidth={1.5} />}
              onClick={() => setDialog("delete")}
            >
              Delete organization
            </Menu.Item>
          </>
        ) : null}
      </Switcher>
      {dialog === "rename" ? <RenameOrganization organization={organization} close={close} /> : null}
      {dialog === "delete" ? <DeleteOrganization organization={organization} close={close} /> : null}
    </>
  );
}

type ProjectDialog = "create" | "rename" | "delete";

export function ProjectSwitcher() {
  const { project, isAdmin } = useProject();
  const { data: projects } = useSuspenseQuery(projectsQuery(project.organization_id));
  const [dialog, setDialog] = useState<ProjectDialog | null>(null);
  const close = () => setDialog(null);
  const navigate = useNavigate();
  return (
    <>
      <Switcher kind="Project" name={project.name} inDialog={dialog !== null}>
        {projects.map((one) => (
          <Menu.Item
            key={one.id}
            onClick={() => navigate({ to: paths.service(one.id) })}
            rightSection={one.id === project.id ? <Tick /> : null}
          >
            {one.name}
          </Menu.Item>
        ))}
        {isAdmin ? (
          <>
            <Menu.Divider />
            <Menu.Item leftSection={<Plus size={16} strokeWidth={1.5} />} onClick={() => setDialog("create")}>
              New project
            </Menu.Item>
            <Menu.Item leftSection={<Pencil size={16} strokeWidth={1.5} />} onClick={() => setDialog("rename")}>
              Rename project
            </Menu.Item>
            <Menu.Item
              color="var(--m-bad)"
              leftSection={<Trash2 size={16} strokeWidth={1.5} />}
              onClick={() => setDialog("delete")}
            >
              Delete project
            </Menu.Item>
          </>
        ) : null}
      </Switcher>
      <CreateProject organizationId={project.organization_id} opened={dialog === "create"} close={close} />
      {dialog === "rename" ? <RenameProject project={project} close={close} /> : null}
      <DeleteProject project={project} opened={dialog === "delete"} close={close} />
    </>
  );
}

interface SwitcherProps {
  kind: string;
  name: string;
  mark?: ReactNode;
  /** Whether a dialog that it opened is there, and has the focus. */
  inDialog?: boolean;
  children: ReactNode;
}

export function Switcher(props: SwitcherProps) {
  return (
    <Menu position="bottom-start" width={240} returnFocus={!props.inDialog}>
      <Menu.Target>
        <UnstyledButton className={classes.switcher} aria-label={`${props.kind}: ${props.name}`}>
          {props.mark}
          <span className={classes.switcherName}>{props.name}</span>
          <ChevronsUpDown size={14} strokeWidth={1.5} className={classes.chevron} aria-hidden />
        </UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>{props.kind}s</Menu.Label>
        {props.children}
      </Menu.Dropdown>
    </Menu>
  );
}

export function Tick() {
  return <Check size={16} strokeWidth={1.5} aria-label="current" />;
}
