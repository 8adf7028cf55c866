import { Menu } from "@mantine/core";
import { Ban, Play, RefreshCw, Trash2 } from "lucide-react";
import { useState } from "react";

import { ActionMenu } from "@/components/ActionMenu";
import { Confirm } from "@/components/Confirm";

import { type ApiKey, useDisableKey, useRevokeKey } from "./queries";

const ICON = { size: 16, strokeWidth: 1.5 };

interface KeyActionsProps {
  apiKey: ApiKey;
  rotate: () => void;
  rotating: boolean;
}

/** What can still be done with a key; nothing with one that has ended. */
export function KeyActions({ apiKey, rotate, rotating }: KeyActionsProps) {
  const [revoking, setRevoking] = useState(false);
  const close = () => setRevoking(false);
  const disable = useDisableKey(apiKey);
  const revoke = useRevokeKey(apiKey, close);
  if (apiKey.status === "revoked" || apiKey.status === "expired") return null;
  const isActive = apiKey.status === "active";
  return (
    <>
      <ActionMenu label={`Actions of ${apiKey.name}`} busy={disable.isPending} inDialog={revoking || rotating}>
        {isActive ? (
          <Menu.Item leftSection={<RefreshCw {...ICON} />} onClick={rotate}>
            Rotate
          </Menu.Item>
        ) : null}
        <Menu.Item
          leftSection={isActive ? <Ban {...ICON} /> : <Play {...ICON} />}
          onClick={() => disable.mutate(isActive)}
        >
          {isActive ? "Disable" : "Enable"}
        </Menu.Item>
        <Menu.Divider />
        <Menu.Item color="var(--m-bad)" leftSection={<Trash2 {...ICON} />} onClick={() => setRevoking(true)}>
          Revoke
        </Menu.Item>
      </ActionMenu>
      <Confirm
        opened={revoking}
        close={close}
        title={`Revoke ${apiKey.name}`}
        action="Revoke key"
        confirm={() => revoke.mutate()}
        busy={revoke.isPending}
      >
        Everything that uses it is refused within seconds. This cannot be undone; disable it instead to try what stops.
      </Confirm>
    </>
  );
}
