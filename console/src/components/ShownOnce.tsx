import { Button, Group, Stack } from "@mantine/core";
import type { ReactNode } from "react";

import { Copy } from "./Copy";
import classes from "./ShownOnce.module.css";

interface ShownOnceProps {
  secret: string;
  /** "key": what to copy. */
  what: string;
  /** Why it has to be copied now. */
  children: ReactNode;
  /** How it is used. */
  hint: ReactNode;
  close: () => void;
}

/** A secret, the only time that anybody sees it. */
export function ShownOnce({ secret, what, children, hint, close }: ShownOnceProps) {
  return (
    <Stack gap={16}>
      <p>{children}</p>
      <div className={classes.secret}>
        <code>{secret}</code>
        <Copy text={secret} label={`Copy ${what}`} withLabel />
      </div>
      <p className={classes.hint}>{hint}</p>
      <Group justify="flex-end">
        <Button onClick={close}>I have copied it</Button>
      </Group>
    </Stack>
  );
}
