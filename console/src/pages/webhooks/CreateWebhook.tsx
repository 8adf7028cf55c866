import { Button, Group, Modal, MultiSelect, Stack, TextInput } from "@mantine/core";
import { useState } from "react";

import { messageOf, Problem } from "@/api/problem";
import { Secret } from "@/components/Secret";

import { useCreateWebhook } from "./queries";
import classes from "./Webhooks.module.css";

const EVENTS = [
  { value: "*", label: "Everything" },
  { value: "container.*", label: "Containers: all" },
  { value: "container.state", label: "Containers: changes of state" },
  { value: "billing.*", label: "Billing" },
  { value: "api_key.*", label: "API keys" },
  { value: "member.*", label: "Members" },
  { value: "project.*", label: "Projects" },
];

interface CreateWebhookProps {
  organizationId: string;
  opened: boolean;
  close: () => void;
}

export function CreateWebhook({ organizationId, opened, close }: CreateWebhookProps) {
  const create = useCreateWebhook(organizationId);
  const made = create.data;
  const leave = () => {
    close();
    create.reset();
  };
  return (
    <Modal
      opened={opened}
      onClose={leave}
      title={made ? "The webhook is made" : "Create webhook"}
      closeButtonProps={{ "aria-label": "Close" }}
      // A slip beside the dialog must not lose a secret that is shown once.
      closeOnClickOutside={!made}
    >
      {made ? <Made secret={made.secret} close={leave} /> : <WebhookForm create={create} cancel={leave} />}
    </Modal>
  );
}

function WebhookForm({ create, cancel }: { create: ReturnType<typeof useCreateWebhook>; cancel: () => void }) {
  const [url, setUrl] = useState("");
  const [events, setEvents] = useState(["*"]);
  const fields = create.error instanceof Problem ? create.error.fields() : {};
  return (
    <form
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        create.mutate({ url: url.trim(), events });
      }}
    >
      <Stack gap={16}>
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
        <Group justify="flex-end" gap={8}>
          <Button variant="default" onClick={cancel}>
            Cancel
          </Button>
          <Button type="submit" loading={create.isPending} disabled={!url.trim() || events.length === 0}>
            Create webhook
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

function Made({ secret, close }: { secret: string; close: () => void }) {
  return (
    <Stack gap={16}>
      <p>Copy the secret now. It is not shown again, and your server needs it to check that an event is ours.</p>
      <Secret text={secret} label="Copy secret" />
      <p className={classes.quiet}>Signatures follow standardwebhooks.com; there is a library for most languages.</p>
      <Group justify="flex-end">
        <Button onClick={close}>I have copied it</Button>
      </Group>
    </Stack>
  );
}
