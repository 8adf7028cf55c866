import { Button, Group, Stack } from "@mantine/core";

import { Secret } from "@/components/Secret";

import classes from "./ApiKeys.module.css";
import type { NewKey } from "./queries";

/** The secret, the only time that anybody sees it. */
export function ShownOnce({ made, close }: { made: NewKey; close: () => void }) {
  return (
    <Stack gap={16}>
      <p>Copy the key now. It is not shown again: only its last four characters are kept in sight.</p>
      <Secret text={made.key} label="Copy key" />
      <p className={classes.quiet}>
        Send it as <code>Authorization: Bearer …</code>. It works at once.
      </p>
      <Group justify="flex-end">
        <Button onClick={close}>I have copied it</Button>
      </Group>
    </Stack>
  );
}
