import { Button, Checkbox, Stack } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { paths } from "@/addresses/paths";
import { Confirm } from "@/components/Confirm";

import { type Member, useRemoveMember } from "./queries";

/** Removing oneself is leaving; then nothing of the organization may stay on the screen. */
export function RemoveMember({ organizationId, member, isMe }: { organizationId: string; member: Member; isMe: boolean }) {
  const [opened, setOpened] = useState(false);
  const [revokeKeys, setRevokeKeys] = useState(true);
  const queries = useQueryClient();
  const after = () => {
    setOpened(false);
    if (!isMe) return;
    queries.clear();
    window.location.assign(paths.home());
  };
  const remove = useRemoveMember(organizationId, member, after);
  const verb = isMe ? "Leave" : "Remove";
  return (
    <>
      <Button
        variant="subtle"
        color="var(--m-bad)"
        size="xs"
        mr={-12}
        aria-label={isMe ? "Leave the organization" : `Remove ${member.email}`}
        onClick={() => setOpened(true)}
      >
        {verb}
      </Button>
      <Confirm
        opened={opened}
        close={() => setOpened(false)}
        title={isMe ? "Leave the organization" : `Remove ${member.email}`}
        action={isMe ? "Leave" : "Remove member"}
        confirm={() => remove.mutate(revokeKeys)}
        busy={remove.isPending}
      >
        <Stack gap={16}>
          <p>
            {isMe
              ? "You lose access at once. An admin can invite you again."
              : "They are signed out and lose access at once. What they deployed keeps running."}
          </p>
          <Checkbox
            label={isMe ? "Revoke the API keys that you made here" : "Revoke the API keys that they made here"}
            checked={revokeKeys}
            onChange={(event) => setRevokeKeys(event.currentTarget.checked)}
          />
        </Stack>
      </Confirm>
    </>
  );
}
