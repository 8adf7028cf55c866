import { Button, Group, Modal, Stack, TextInput } from "@mantine/core";
import { type ReactNode, useState } from "react";

interface ConfirmProps {
  opened: boolean;
  close: () => void;
  /** "Delete container" */
  title: string;
  /** What has to be typed. */
  name: string;
  /** What goes and what stays. */
  children: ReactNode;
  action: string;
  confirm: () => void;
  busy: boolean;
}

export function ConfirmByTyping(props: ConfirmProps) {
  const [typed, setTyped] = useState("");
  const close = () => {
    setTyped("");
    props.close();
  };
  return (
    <Modal opened={props.opened} onClose={close} title={props.title} closeButtonProps={{ "aria-label": "Close" }}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          props.confirm();
        }}
      >
        <Stack gap={16}>
          <p>
            Type <strong>{props.name}</strong> to delete it. {props.children}
          </p>
          <TextInput
            data-autofocus
            aria-label={`Type ${props.name}`}
            value={typed}
            onChange={(event) => setTyped(event.currentTarget.value)}
            autoComplete="off"
            spellCheck={false}
          />
          <Group justify="flex-end" gap={8}>
            <Button variant="default" onClick={close}>
              Keep it
            </Button>
            <Button type="submit" color="red.8" disabled={typed !== props.name} loading={props.busy}>
              {props.action}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
