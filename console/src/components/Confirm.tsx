import { Button, Group, Modal, Stack } from "@mantine/core";
import type { ReactNode } from "react";

interface ConfirmProps {
  opened: boolean;
  close: () => void;
  title: string;
  /** What goes and what stays. */
  children: ReactNode;
  action: string;
  confirm: () => void;
  busy: boolean;
}

/** For what cannot be undone but needs no name typed. */
export function Confirm(props: ConfirmProps) {
  return (
    <Modal opened={props.opened} onClose={props.close} title={props.title} closeButtonProps={{ "aria-label": "Close" }}>
      <Stack gap={16}>
        <div>{props.children}</div>
        <Group justify="flex-end" gap={8}>
          <Button variant="default" onClick={props.close} data-autofocus>
            Cancel
          </Button>
          <Button color="red.8" loading={props.busy} onClick={props.confirm}>
            {props.action}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
