import { Button, Group, Modal, Select, Stack } from "@mantine/core";
import { useState } from "react";

import { ErrorNotice } from "@/components/Patterns";

import { type ApiKey, useRotateKey } from "./queries";
import { ShownOnce } from "./ShownOnce";

const OVERLAPS = [
  { value: "0", label: "It stops at once" },
  { value: "3600", label: "It works for 1 more hour" },
  { value: "86400", label: "It works for 1 more day" },
  { value: "604800", label: "It works for 7 more days" },
];

/** A new key in place of an old one, both working while clients change over. */
export function RotateKey({ apiKey, close }: { apiKey: ApiKey; close: () => void }) {
  const [overlap, setOverlap] = useState("3600");
  const rotate = useRotateKey(apiKey);
  const made = rotate.data;
  return (
    <Modal
      opened
      onClose={close}
      title={made ? `${made.name} has a new key` : `Rotate ${apiKey.name}`}
      closeButtonProps={{ "aria-label": "Close" }}
      closeOnClickOutside={!made}
    >
      {made ? (
        <ShownOnce made={made} close={close} />
      ) : (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            rotate.mutate(Number(overlap));
          }}
        >
          <Stack gap={16}>
            <p>A new key with the same name, scope and end takes over.</p>
            <Select
              label="The old key"
              data={OVERLAPS}
              value={overlap}
              onChange={(value) => value && setOverlap(value)}
            />
            {rotate.isError ? <ErrorNotice error={rotate.error} /> : null}
            <Group justify="flex-end" gap={8}>
              <Button variant="default" onClick={close}>
                Cancel
              </Button>
              <Button type="submit" loading={rotate.isPending}>
                Rotate key
              </Button>
            </Group>
          </Stack>
        </form>
      )}
    </Modal>
  );
}
