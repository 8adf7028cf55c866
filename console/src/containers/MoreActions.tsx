import { ActionIcon, Menu } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { ChartNoAxesColumn, Copy, Ellipsis, Server, Settings, Shuffle, Stethoscope, Trash2 } from "lucide-react";
import { useState } from "react";

import { paths } from "@/addresses/paths";
import type { Container } from "@/api/queries";
import { ConfirmByTyping } from "@/components/ConfirmByTyping";
import { isStopped } from "@/components/state";
import { done } from "@/components/toasts";

import { Doctor } from "./Doctor";
import { useContainerAction } from "./queries";
import { Redeploy } from "./Redeploy";

const ICON = { size: 16, strokeWidth: 1.5 };

type Dialog = "redeploy" | "doctor" | "delete";

/** What is not needed every day. */
export function MoreActions({ container, size }: { container: Container; size: "xs" | "sm" }) {
  const [dialog, setDialog] = useState<Dialog | null>(null);
  const navigate = useNavigate();
  const { project_id: project, id, state } = container;
  const going = state === "DELETING";
  const move = useContainerAction(id, () => done(`${container.name} restarts on other machines.`));
  const remove = useContainerAction(id, () => {
    done(`${container.name} is being deleted.`);
    setDialog(null);
    void navigate({ to: paths.service(project) });
  });
  return (
    <>
      <Menu width={224} returnFocus={dialog === null}>
        <Menu.Target>
          <ActionIcon variant="default" size={size === "xs" ? 28 : 32} aria-label="More actions">
            <Ellipsis {...ICON} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item leftSection={<Settings {...ICON} />} onClick={() => navigate({ to: paths.dashboard(project, id, "settings") })}>
            Settings
          </Menu.Item>
          <Menu.Item
            leftSection={<ChartNoAxesColumn {...ICON} />}
            onClick={() => navigate({ to: paths.dashboard(project, id, "autoscaling") })}
          >
            Scale
          </Menu.Item>
          <Menu.Item leftSection={<Copy {...ICON} />} onClick={() => navigate({ to: paths.create(project, { copy: id }) })}>
            Duplicate
          </Menu.Item>
          <Menu.Divider />
          <Menu.Item leftSection={<Server {...ICON} />} disabled={going} onClick={() => setDialog("redeploy")}>
            Redeploy on another type
          </Menu.Item>
          <Menu.Item leftSection={<Shuffle {...ICON} />} disabled={state !== "RUNNING"} onClick={() => move.mutate("move")}>
            Restart on other machines
          </Menu.Item>
          <Menu.Item
            leftSection={<Stethoscope {...ICON} />}
            disabled={isStopped(state) || going}
            onClick={() => setDialog("doctor")}
          >
            Run doctor
          </Menu.Item>
          <Menu.Divider />
          <Menu.Item
            color="var(--m-bad)"
            leftSection={<Trash2 {...ICON} />}
            disabled={going}
            onClick={() => setDialog("delete")}
          >
            Delete
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <Redeploy container={container} opened={dialog === "redeploy"} close={() => setDialog(null)} />
      <Doctor container={container} opened={dialog === "doctor"} close={() => setDialog(null)} />
      <ConfirmByTyping
        opened={dialog === "delete"}
        close={() => setDialog(null)}
        title="Delete container"
        name={container.name}
        action="Delete container"
        busy={remove.isPending}
        confirm={() => remove.mutate("delete")}
      >
        Its endpoint stops at once; logs stay until their days are over.
      </ConfirmByTyping>
    </>
  );
}
