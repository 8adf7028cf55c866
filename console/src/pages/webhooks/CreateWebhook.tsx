import { MultiSelect, SegmentedControl, TextInput } from "@mantine/core";
import { useState } from "react";

import { messageOf, Problem } from "@/api/problem";
import { FormDialog } from "@/components/FormDialog";
import { ShownOnce } from "@/components/ShownOnce";
import { done } from "@/components/toasts";

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

/** What people in a chat want to hear of; everything would be noise. */
const CHAT_EVENTS = ["container.state", "billing.*"];
const FORMATS = [
  { value: "event", label: "To a server" },
  { value: "chat", label: "To a chat" },
];
const ABOUT = {
  event: { description: "Of your server. Each event is a POST with a signature.", placeholder: "https://example.com/hooks/moorage" },
  chat: {
    description: "The incoming webhook of Slack, Mattermost, Rocket.Chat or Google Chat. For Discord, add /slack to it.",
    placeholder: "https://hooks.slack.com/services/…",
  },
};

export function CreateWebhook({ organizationId, close }: { organizationId: string; close: () => void }) {
  const [url, setUrl] = useState("");
  const [events, setEvents] = useState(["*"]);
  const [format, setFormat] = useState<keyof typeof ABOUT>("event");
  const create = useCreateWebhook(organizationId);
  // A chat checks no signature, so nobody needs its secret.
  const made = create.data?.format === "event" ? create.data : undefined;
  const choose = (chosen: keyof typeof ABOUT) => {
    setFormat(chosen);
    setEvents(chosen === "chat" ? CHAT_EVENTS : ["*"]);
  };
  const submit = () =>
    create.mutate(
      { url: url.trim(), events, format },
      {
        onSuccess: (one) => {
          if (one.format !== "chat") return;
          done("The webhook is created. Send a test to see it in the chat.");
          close();
        },
      },
    );
  const fields = create.error instanceof Problem ? create.error.fields() : {};
  const secret = made ? (
    <ShownOnce
      secret={made.secret}
      what="secret"
      hint="Signatures follow standardwebhooks.com; there is a library for most languages."
      close={close}
    >
      Copy the secret now. It is not shown again, and your server needs it to check that an event comes from here.
    </ShownOnce>
  ) : undefined;
  return (
    <FormDialog
      opened
      close={close}
      title={made ? "The webhook is created" : "Create webhook"}
      action="Create webhook"
      submit={submit}
      busy={create.isPending}
      disabled={!url.trim() || events.length === 0}
      outcome={secret}
    >
      <SegmentedControl
        fullWidth
        aria-label="Send"
        data={FORMATS}
        value={format}
        onChange={(value) => choose(value as keyof typeof ABOUT)}
      />
      <TextInput
        label="Address"
        {...ABOUT[format]}
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
