import { ActionIcon, Menu } from "@mantine/core";
import { MoreHorizontal } from "lucide-react";
import type { ReactNode } from "react";

interface ActionMenuProps {
  /** "Actions of my-key" */
  label: string;
  busy?: boolean;
  /** Whether a dialog that one of the actions opened is there: it has the focus, and the menu's button has it again after. */
  inDialog: boolean;
  children: ReactNode;
}

/** What can be done with one thing, behind three dots. */
export function ActionMenu({ label, busy = false, inDialog, children }: ActionMenuProps) {
  return (
    <Menu width={200} returnFocus={!inDialog}>
      <Menu.Target>
        <ActionIcon aria-label={label} loading={busy}>
          <MoreHorizontal size={16} strokeWidth={1.5} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>{children}</Menu.Dropdown>
    </Menu>
  );
}
