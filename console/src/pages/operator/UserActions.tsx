import { Menu } from "@mantine/core";
import { LogOut } from "lucide-react";
import { useState } from "react";

import { ActionMenu } from "@/components/ActionMenu";
import { Confirm } from "@/components/Confirm";
import { failed } from "@/components/toasts";

import { decisions, useDecision, type UserSummary } from "./queries";

export function UserActions({ user }: { user: UserSummary }) {
  const [asking, setAsking] = useState(false);
  const close = () => setAsking(false);
  const signOut = useDecision(() => decisions.signOut(user), `${user.email} is signed out everywhere.`, close);
  return (
    <>
      <ActionMenu label={`Actions of ${user.email}`} busy={signOut.isPending} inDialog={asking}>
        <Menu.Item color="var(--m-bad)" leftSection={<LogOut size={16} strokeWidth={1.5} />} onClick={() => setAsking(true)}>
          Sign out everywhere
        </Menu.Item>
      </ActionMenu>
      <Confirm
        opened={asking}
        close={close}
        title={`Sign ${user.email} out everywhere`}
        action="Sign out everywhere"
        confirm={() => signOut.mutate(undefined, { onError: failed })}
        busy={signOut.isPending}
      >
        All browsers and command lines have to sign in again. API keys go on working; an admin of the organization revokes them.
      </Confirm>
    </>
  );
}
