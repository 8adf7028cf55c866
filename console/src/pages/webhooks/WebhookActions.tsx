import { Menu } from "@mantine/core";
import { Ban, Play, Send, Trash2 } from "lucide-react";
import { useState } from "react";

import { ActionMenu } from "@/components/ActionMenu";
import { Confirm } from "@/components/Confirm";

import { useWebhookAction, type Webhook } from "./queries";

const ICON = { size: 16, strokeWidth: 1.5 };

export function WebhookActions({ organizationId, webhook }: { organizationId: string; webhook: Webhook }) {
  const [removing, setRemoving] = useState(false);
  const act = useWebhookAction(organizationId, webhook, () => setRemoving(false));
  return (
    <>
      <ActionMenu label={`Actions of ${webhook.url}`} busy={act.isPending && !removing} inDialog={removing}>
        <Menu.Item leftSection={<Send {...ICON} />} disabled={!webhook.enabled} onClick={() => act.mutate("test")}>
          Send a test
        </Menu.Item>
        <Menu.Item
          leftSection={webhook.enabled ? <Ban {...ICON} /> : <Play {...ICON} />}
          onClick={() => act.mutate(webhook.enabled ? "disable" : "enable")}
        >
          {webhook.enabled ? "Disable" : "Enable"}
        </Menu.Item>
        <Menu.Divider />
        <Menu.Item color="var(--m-bad)" leftSection={<Trash2 {...ICON} />} onClick={() => setRemoving(true)}>
          Delete
        </Menu.Item>
      </ActionMenu>
      <Confirm
        opened={removing}
        close={() => setRemoving(false)}
        title="Delete webhook"
        action="Delete webhook"
        confirm={() => act.mutate("remove")}
        busy={act.isPending}
      >
        Nothing more is sent to {webhook.url}, and its deliveries are no longer shown.
      </Confirm>
    </>
  );
}
