import { ActionIcon, Button, Menu } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { Copy, Ellipsis, Play, RotateCw, Settings, Square, Trash2 } from "lucide-react";
import { useState } from "react";

import type { Container } from "@/api/queries";
import { ConfirmByTyping } from "@/components/ConfirmByTyping";
import { isStopped } from "@/components/state";
import { done } from "@/components/toasts";
import { paths } from "@/routes/paths";

import { useContainerAction } from "./queries";

const ICON = { size: 16, strokeWidth: 1.5 };

interface ContainerActionsProps {
  container: Container;
  /** 28 px in a bar. */
  size?: "xs" | "sm";
}

/** What can be done with a container now. */
export function ContainerActions({ container, size = "sm" }: ContainerActionsProps) {
  const action = useContainerAction(container.id);
  const { state } = container;
  const going = state === "DELETING";
  return (
    <>
      {isStopped(state) ? (
        <Button
          size={size}
          variant="default"
          leftSection={<Play {...ICON} />}
          loading={action.isPending && action.variables === "start"}
          onClick={() => action.mutate("start")}
        >
          Start
        </Button>
      ) : null}
      {state === "RUNNING" ? (
        <Button
          size={size}
          variant="default"
          leftSection={<RotateCw {...ICON} />}
          loading={action.isPending && action.variables === "restart"}
          onClick={() => action.mutate("restart")}
        >
          Restart
        </Button>
      ) : null}
      {!isStopped(state) && !going ? (
        <Button
          size={size}
          variant="default"
          leftSection={<Square {...ICON} />}
          disabled={state === "STOPPING"}
          loading={action.isPending && action.variables === "stop"}
          onClick={() => action.mutate("stop")}
        >
          Stop
        </Button>
      ) : null}
      <MoreActions container={container} size={size} />
    </>
  );
}

function MoreActions({ container, size }: { container: Container; size: "xs" | "sm" }) {
  const [deleting, setDeleting] = useState(false);
  const navigate = useNavigate();
  const remove = useContainerAction(container.id, () => {
    done(`${container.name} is being deleted.`);
    setDeleting(false);
    void navigate({ to: paths.service(container.project_id) });
  });
  return (
    <>
      <Menu width={200}>
        <Menu.Target>
          <ActionIcon variant="default" size={size === "xs" ? 28 : 32} aria-label="More actions">
            <Ellipsis {...ICON} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item
            leftSection={<Settings {...ICON} />}
            onClick={() => navigate({ to: paths.dashboard(container.project_id, container.id, "settings") })}
          >
            Settings
          </Menu.Item>
          <Menu.Item
            leftSection={<Copy {...ICON} />}
            onClick={() => navigate({ to: paths.create(container.project_id, container.id) })}
          >
            Duplicate
          </Menu.Item>
          <Menu.Divider />
          <Menu.Item
            color="var(--m-bad)"
            leftSection={<Trash2 {...ICON} />}
            disabled={container.state === "DELETING"}
            onClick={() => setDeleting(true)}
          >
            Delete
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <ConfirmByTyping
        opened={deleting}
        close={() => setDeleting(false)}
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
