import { ActionIcon, Menu } from "@mantine/core";
import { Ban, MoreHorizontal, Play, RefreshCw, Trash2 } from "lucide-react";
import { useState } from "react";

import { Confirm } from "@/components/Confirm";

import { type ApiKey, useDisableKey, useRevokeKey } from "./queries";

const ICON = { size: 16, strokeWidth: 1.5 };

/** What can still be done with a key; nothing with one that has ended. */
export function KeyActions({ apiKey, rotate }: { apiKey: ApiKey; rotate: () => void }) {
  const [revoking, setRevoking] = useState(false);
  const close = () => setRevoking(false);
  const disable = useDisableKey(apiKey);
  const revoke = useRevokeKey(apiKey, close);
  if (apiKey.status === "revoked" || apiKey.status === "expired") return null;
  const isActive = apiKey.status === "active";
  return (
    <>
      <Menu width={200}>
        <Menu.Target>
          <ActionIcon aria-label={`Actions of ${apiKey.name}`} loading={disable.isPending}>
            <MoreHorizontal {...ICON} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
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
        </Menu.Dropdown>
      </Menu>
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
