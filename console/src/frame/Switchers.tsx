import { Menu, UnstyledButton } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Check, ChevronsUpDown, Plus } from "lucide-react";
import { type ReactNode, useState } from "react";

import { paths } from "@/addresses/paths";
import { useProject } from "@/addresses/useProject";
import { organizationsQuery, projectsQuery, queryClient } from "@/api/queries";
import { failed } from "@/components/toasts";

import { CreateProject } from "./CreateProject";
import classes from "./Frame.module.css";

export function OrganizationSwitcher() {
  const { organization } = useProject();
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
  if (!organization) return null;
  return (
    <Switcher
      kind="Organization"
      name={organization.name}
      mark={<span className={classes.initial} data-initial={organization.name.charAt(0).toUpperCase()} aria-hidden />}
    >
      {organizations.map((one) => (
        <Menu.Item key={one.id} onClick={() => open(one.id)} rightSection={one.id === organization.id ? <Tick /> : null}>
          {one.name}
        </Menu.Item>
      ))}
    </Switcher>
  );
}

export function ProjectSwitcher() {
  const { project, isAdmin } = useProject();
  const { data: projects } = useSuspenseQuery(projectsQuery(project.organization_id));
  const [creating, setCreating] = useState(false);
  const navigate = useNavigate();
  return (
    <>
      <Switcher kind="Project" name={project.name} inDialog={creating}>
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
            <Menu.Item leftSection={<Plus size={16} strokeWidth={1.5} />} onClick={() => setCreating(true)}>
              New project
            </Menu.Item>
          </>
        ) : null}
      </Switcher>
      <CreateProject organizationId={project.organization_id} opened={creating} close={() => setCreating(false)} />
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
