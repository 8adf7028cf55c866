import { Button, Modal, Stack } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { paths } from "@/addresses/paths";
import { api, body } from "@/api/client";
import { type Container, instanceTypesQuery } from "@/api/queries";
import { LinkTo } from "@/components/LinkTo";
import { dollars } from "@/components/Money";
import { Waiting } from "@/components/Patterns";
import { isStopped } from "@/components/state";
import { done, failed } from "@/components/toasts";

import classes from "./Actions.module.css";
import { fromContainer, toPatch } from "./form/draft";
import { Tiles } from "./form/Tiles";

interface RedeployProps {
  container: Container;
  opened: boolean;
  close: () => void;
}

/** The same container on another instance type. What runs goes on until the new one has shown that it works. */
export function Redeploy({ container, opened, close }: RedeployProps) {
  return (
    <Modal
      opened={opened}
      onClose={close}
      title="Redeploy on another instance type"
      size={720}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      {opened ? <Choice container={container} close={close} /> : null}
    </Modal>
  );
}

function Choice({ container, close }: { container: Container; close: () => void }) {
  const current = container.resources.instance_type;
  const [chosen, setChosen] = useState(current);
  const types = useQuery(instanceTypesQuery).data;
  const redeploy = useRedeploy(container, close);
  const type = types?.find((one) => one.name === chosen);
  if (container.draft?.saved_at) {
    return (
      <p>
        Changes are staged already. <LinkTo to={paths.dashboard(container.project_id, container.id, "settings")}>Apply or discard them</LinkTo>{" "}
        first.
      </p>
    );
  }
  return (
    <Stack gap={16}>
      <p className={classes.quiet}>
        {isStopped(container.state)
          ? "It starts on the new type. Charged when the first replica is ready."
          : "It stops and starts on the new type; if that does not become ready, it goes back to the old one."}
      </p>
      {types ? (
        <div className={classes.types}>
          <Tiles types={types} chosen={chosen} choose={setChosen} />
        </div>
      ) : (
        <Waiting rows={3} height={96} />
      )}
      <div className={classes.actions}>
        <Button variant="default" onClick={close}>
          Cancel
        </Button>
        <Button disabled={chosen === current} loading={redeploy.isPending} onClick={() => redeploy.mutate(chosen)}>
          {type && chosen !== current ? `Redeploy for ${dollars(type.price_per_hour_microusd)}/h` : "Redeploy"}
        </Button>
      </div>
    </Stack>
  );
}

function useRedeploy(container: Container, close: () => void) {
  const queries = useQueryClient();
  const params = { path: { container_id: container.id } };
  return useMutation({
    mutationFn: async (instanceType: string) => {
      const patch = toPatch({ ...fromContainer(container), instanceType }, container);
      if (isStopped(container.state)) {
        await body(api.PATCH("/api/v1/containers/{container_id}", { params, body: patch }));
        return body(api.POST("/api/v1/containers/{container_id}/start", { params }));
      }
      await body(api.PUT("/api/v1/containers/{container_id}/draft", { params, body: patch }));
      return body(api.POST("/api/v1/containers/{container_id}/draft/apply", { params }));
    },
    onSuccess: async (changed, instanceType) => {
      queries.setQueryData(["containers", container.id], changed);
      await queries.invalidateQueries({ queryKey: ["containers"] });
      done(`${container.name} is being redeployed on ${instanceType}.`);
      close();
    },
    onError: failed,
  });
}
