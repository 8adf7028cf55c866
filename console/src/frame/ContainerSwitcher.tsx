import { Menu } from "@mantine/core";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";

import { type DashboardTab, paths } from "@/addresses/paths";
import { containerQuery, containersQuery } from "@/api/queries";
import { lookOf } from "@/components/state";
import { StateIcon } from "@/components/StateIcon";

import { Switcher, Tick } from "./Switchers";

const MOST = 30;

/** The third switcher: another container, on the same tab. */
export function ContainerSwitcher({ containerId, tab }: { containerId: string; tab: DashboardTab }) {
  const { data: container } = useSuspenseQuery(containerQuery(containerId));
  const containers = useQuery(containersQuery(container.project_id)).data ?? [];
  const navigate = useNavigate();
  return (
    <Switcher kind="Container" name={container.name} mark={<StateIcon state={lookOf(container)} />}>
      {containers.slice(0, MOST).map((one) => (
        <Menu.Item
          key={one.id}
          leftSection={<StateIcon state={lookOf(one)} />}
          rightSection={one.id === containerId ? <Tick /> : null}
          onClick={() => navigate({ to: paths.dashboard(one.project_id, one.id, tab) })}
        >
          {one.name}
        </Menu.Item>
      ))}
    </Switcher>
  );
}
