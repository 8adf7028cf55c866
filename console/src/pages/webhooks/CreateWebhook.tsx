import { MultiSelect, TextInput } from "@mantine/core";
import { useState } from "react";

import { messageOf, Problem } from "@/api/problem";
import { FormDialog } from "@/components/FormDialog";
import { ShownOnce } from "@/components/ShownOnce";

import { useCreateWebhook } from "./queries";

const EVENTS = [
  { value: "*", label: "Everything" },
  { value: "container.*", label: "Containers: all" },
  { value: "container.state", label: "Containers: changes of state" },
  { value: "billing.*", label: "Billing" },
  { value: "api_key.*", label: "API keys" },
  { value: "member.*", label: "Members" },
  { value: "project.*", label: "Projects" },
];

export function CreateWebhook({ organizationId, close }: { organizationId: string; close: () => void }) {
  const [url, setUrl] = useState("");
  const [events, setEvents] = useState(["*"]);
  const create = useCreateWebhook(organizationId);
  const made = create.data;
  const fields = create.error instanceof Problem ? create.error.fields() : {};
  const secret = made ? (
    <ShownOnce
      secret={made.secret}
      what="secret"
      hint="Signatures follow standardwebhooks.com; there is a library for most languages."
      close={close}
    >
      Copy the secret now. It is not shown again, and your server needs it to check that an event is ours.
    </ShownOnce>
  ) : undefined;
  return (
    <FormDialog
      opened
      close={close}
      title={made ? "The webhook is made" : "Create webhook"}
      action="Create webhook"
      submit={() => create.mutate({ url: url.trim(), events })}
      busy={create.isPending}
      disabled={!url.trim() || events.length === 0}
      outcome={secret}
    >
      <TextInput
        label="Address"
        description="Of a server of yours. Each event is a POST with a signature."
        placeholder="https://example.com/hooks/moorage"
        data-autofocus
        value={url}
        onChange={(event) => setUrl(event.currentTarget.value)}
        error={create.isError ? (fields["url"] ?? messageOf(create.error)) : null}
        autoComplete="off"
      />
      <MultiSelect label="Events" data={EVENTS} value={events} onChange={setEvents} />
    </FormDialog>
  );
}
