import { Button } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { useState } from "react";

import { handbook } from "@/addresses/handbook";
import { useProject } from "@/addresses/useProject";
import { Card, Page } from "@/components/Page";
import { Empty } from "@/components/Patterns";
import { Table } from "@/components/Table";
import { longDate } from "@/components/times";
import { useNow } from "@/components/useNow";

import { CreateWebhook } from "./CreateWebhook";
import { Deliveries } from "./Deliveries";
import { type Webhook, webhooksQuery } from "./queries";
import { WebhookActions } from "./WebhookActions";
import classes from "./Webhooks.module.css";

/** Where the organization's events are sent. Only admins come here. */
export function Webhooks() {
  const { project, isAdmin } = useProject();
  if (isAdmin) return <List organizationId={project.organization_id} />;
  return (
    <Page title="Webhooks">
      <Card label="Webhooks">
        <Empty>Only admins see webhooks. Ask an admin of your organization.</Empty>
      </Card>
    </Page>
  );
}

function List({ organizationId }: { organizationId: string }) {
  const { data: webhooks } = useSuspenseQuery(webhooksQuery(organizationId));
  const [creating, setCreating] = useState(false);
  const [chosen, setChosen] = useState<string | null>(null);
  const shown = webhooks.find((one) => one.id === chosen) ?? webhooks[0];
  return (
    <Page
      learn={handbook.webhooks}
      title="Webhooks"
      hint="Events of the whole organization, sent to your server or chat."
      actions={
        <Button leftSection={<Plus size={16} strokeWidth={1.5} />} onClick={() => setCreating(true)}>
          Create webhook
        </Button>
      }
    >
      <Card flush label="Webhooks">
        {webhooks.length === 0 ? (
          <Empty>There is no webhook yet. Create one, and your server or chat hears of every change of a container.</Empty>
        ) : (
          <WebhookTable organizationId={organizationId} webhooks={webhooks} shown={shown} show={setChosen} />
        )}
      </Card>
      {shown ? <Deliveries key={shown.id} organizationId={organizationId} webhook={shown} /> : null}
      {creating ? <CreateWebhook organizationId={organizationId} close={() => setCreating(false)} /> : null}
    </Page>
  );
}

interface WebhookTableProps {
  organizationId: string;
  webhooks: Webhook[];
  shown: Webhook | undefined;
  show: (webhookId: string) => void;
}

function WebhookTable({ organizationId, webhooks, shown, show }: WebhookTableProps) {
  const now = useNow(60_000);
  return (
    <Table
      rows={webhooks}
      rowKey={(row) => row.id}
      empty=""
      columns={[
        {
          head: "Address",
          cell: (row) =>
            webhooks.length === 1 ? (
              <span className={classes.address}>{row.url}</span>
            ) : (
              <button
                type="button"
                className={classes.address}
                aria-pressed={row.id === shown?.id}
                title="Show its deliveries"
                onClick={() => show(row.id)}
              >
                {row.url}
              </button>
            ),
        },
        { head: "Events", wide: true, cell: eventsOf },
        {
          head: "State",
          cell: (row) =>
            row.enabled ? (
              // Whether it is heard is in its deliveries; nobody looked here.
              <span>Enabled</span>
            ) : (
              <>
                <span data-tone="warn">Disabled</span>
                {row.disabled_reason ? <small className={classes.reason}>{row.disabled_reason}</small> : null}
              </>
            ),
        },
        { head: "Created", wide: true, cell: (row) => longDate(row.created_at, now) },
        {
          head: "Actions",
          right: true,
          cell: (row) => <WebhookActions organizationId={organizationId} webhook={row} />,
        },
      ]}
    />
  );
}

function eventsOf(webhook: Webhook): string {
  const events = webhook.events.includes("*") ? "Everything" : webhook.events.join(", ");
  return webhook.format === "chat" ? `${events}, to a chat` : events;
}
