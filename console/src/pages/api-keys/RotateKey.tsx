import { Select } from "@mantine/core";
import { useState } from "react";

import { FormDialog } from "@/components/FormDialog";
import { ErrorNotice } from "@/components/Patterns";

import { NewKey } from "./NewKey";
import { type ApiKey, useRotateKey } from "./queries";

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
    <FormDialog
      opened
      close={close}
      title={made ? `${made.name} has a new key` : `Rotate ${apiKey.name}`}
      action="Rotate key"
      submit={() => rotate.mutate(Number(overlap))}
      busy={rotate.isPending}
      outcome={made ? <NewKey made={made} close={close} /> : undefined}
    >
      <p>A new key with the same name, scope and end takes over.</p>
      <Select label="The old key" data={OVERLAPS} value={overlap} onChange={(value) => value && setOverlap(value)} />
      {rotate.isError ? <ErrorNotice error={rotate.error} /> : null}
    </FormDialog>
  );
}
