import { Button } from "@mantine/core";
import { Play, RotateCw, Square } from "lucide-react";

import type { Container } from "@/api/queries";
import { isStopped } from "@/components/state";

import { MoreActions } from "./MoreActions";
import { useContainerAction } from "./queries";
import { useUnderTraffic } from "./useUnderTraffic";

const ICON = { size: 16, strokeWidth: 1.5 };

interface ContainerActionsProps {
  container: Container;
  /** 28 px in a bar. */
  size?: "xs" | "sm";
  /** What it says of its failure below has its own way to start it. */
  startsBelow?: boolean;
}

/** What can be done with a container now. */
export function ContainerActions({ container, size = "sm", startsBelow = false }: ContainerActionsProps) {
  const action = useContainerAction(container.id);
  const disruptive = useUnderTraffic();
  const { state } = container;
  const going = state === "DELETING";
  return (
    <>
      {isStopped(state) && !startsBelow ? (
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
      {container.asleep_since ? (
        <Button
          size={size}
          variant="default"
          leftSection={<Play {...ICON} />}
          loading={action.isPending && action.variables === "wake"}
          onClick={() => action.mutate("wake")}
        >
          Wake
        </Button>
      ) : null}
      {state === "RUNNING" ? (
        <Button
          size={size}
          variant="default"
          leftSection={<RotateCw {...ICON} />}
          loading={disruptive.busy === "restart"}
          onClick={() => disruptive.ask(container, "restart")}
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
          loading={disruptive.busy === "stop"}
          onClick={() => disruptive.ask(container, "stop")}
        >
          Stop
        </Button>
      ) : null}
      <MoreActions container={container} size={size} />
      {disruptive.dialog}
    </>
  );
}
