import { NumberInput, Select, TextInput } from "@mantine/core";
import { useState } from "react";

import { messageOf, Problem } from "@/api/problem";
import { FormDialog } from "@/components/FormDialog";

import { NewKey } from "./NewKey";
import { useCreateKey } from "./queries";

const DAY_MS = 86_400_000;
const LIVES = [
  { value: "7", label: "After 7 days" },
  { value: "30", label: "After 30 days" },
  { value: "90", label: "After 90 days" },
  { value: "365", label: "After a year" },
  { value: "never", label: "Never" },
];
const SCOPES = [
  { value: "inference", label: "Inference: call the containers" },
  { value: "manage", label: "Manage: also create and change them" },
];

export function CreateKey({ projectId, close }: { projectId: string; close: () => void }) {
  const [name, setName] = useState("");
  const [scope, setScope] = useState("inference");
  const [life, setLife] = useState("90");
  const [limit, setLimit] = useState<number | null>(null);
  // Its life counts from when the dialog was opened: pressed once more after a lost answer, it is the same key that is asked for.
  const [openedAt] = useState(() => Date.now());
  const create = useCreateKey(projectId);
  const made = create.data;
  const fields = create.error instanceof Problem ? create.error.fields() : {};
  const submit = () =>
    create.mutate({
      name: name.trim(),
      scope: scope === "manage" ? "manage" : "inference",
      requests_per_minute: limit,
      expires_at: life === "never" ? null : new Date(openedAt + Number(life) * DAY_MS).toISOString(),
    });
  return (
    <FormDialog
      opened
      close={close}
      title={made ? `${made.name} is made` : "Create key"}
      action="Create key"
      submit={submit}
      busy={create.isPending}
      disabled={!name.trim()}
      outcome={made ? <NewKey made={made} close={close} /> : undefined}
    >
      <TextInput
        label="Name"
        description="Say what uses it, so that you know what stops when it is revoked."
        placeholder="my-app"
        data-autofocus
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        error={create.isError ? (fields["name"] ?? (fields["requests_per_minute"] ? null : messageOf(create.error))) : null}
        autoComplete="off"
      />
      <Select label="Scope" data={SCOPES} value={scope} onChange={(value) => value && setScope(value)} />
      <Select label="Expires" data={LIVES} value={life} onChange={(value) => value && setLife(value)} />
      <NumberInput
        label="Requests per minute"
        description="Optional. Beyond it, requests with this key are refused until the minute is over."
        placeholder="no limit of its own"
        min={1}
        max={1_000_000}
        thousandSeparator=","
        value={limit ?? ""}
        onChange={(value) => setLimit(typeof value === "number" ? value : null)}
        error={fields["requests_per_minute"]}
      />
    </FormDialog>
  );
}
