import { Button, Group, Modal, Stack } from "@mantine/core";
import { type ReactNode, useEffect, useRef } from "react";

interface FormDialogProps {
  opened: boolean;
  close: () => void;
  title: string;
  children: ReactNode;
  /** A verb: what the button does. */
  action: string;
  submit: () => void;
  busy: boolean;
  disabled?: boolean;
  /** For what takes something away: the button is red. */
  destructive?: boolean;
  /** For a line that is long. */
  wide?: boolean;
  /** Stands in place of the fields once it is done: a secret that is shown this once. */
  outcome?: ReactNode;
}

/** A few fields and one button. */
export function FormDialog(props: FormDialogProps) {
  return (
    <Modal
      opened={props.opened}
      onClose={props.close}
      title={props.title}
      size={props.wide ? "lg" : undefined}
      closeButtonProps={{ "aria-label": "Close" }}
      // Neither a slip beside the dialog nor one on the keyboard may lose a secret that is shown once.
      closeOnClickOutside={!props.outcome}
      closeOnEscape={!props.outcome}
    >
      {props.outcome ? <Outcome>{props.outcome}</Outcome> : <Form {...props} />}
    </Modal>
  );
}

/** Its first button, which copies what is shown, takes the focus of the one that is gone: it would be nowhere otherwise. */
function Outcome({ children }: { children: ReactNode }) {
  const shown = useRef<HTMLDivElement>(null);
  useEffect(() => shown.current?.querySelector("button")?.focus(), []);
  return <div ref={shown}>{children}</div>;
}

function Form(props: FormDialogProps) {
  return (
    <form
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        props.submit();
      }}
    >
      <Stack gap={16}>
        {props.children}
        <Group justify="flex-end" gap={8}>
          <Button variant="default" onClick={props.close}>
            Cancel
          </Button>
          <Button
            type="submit"
            color={props.destructive ? "red.8" : undefined}
            loading={props.busy}
            disabled={props.disabled}
          >
            {props.action}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
