import { Button, SegmentedControl } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { useState } from "react";

import { handbook } from "@/addresses/handbook";
import { useProject } from "@/addresses/useProject";
import { Card, Page } from "@/components/Page";
import { Empty } from "@/components/Patterns";
import { Table } from "@/components/Table";
import { longDate, since } from "@/components/times";
import { useNow } from "@/components/useNow";

import classes from "./ApiKeys.module.css";
import { CreateKey } from "./CreateKey";
import { KeyActions } from "./KeyActions";
import { type ApiKey, apiKeysQuery } from "./queries";
import { RotateKey } from "./RotateKey";

const STATES = {
  active: { word: "Active", tone: "ok" },
  disabled: { word: "Disabled", tone: "warn" },
  expired: { word: "Expired", tone: "idle" },
  revoked: { word: "Revoked", tone: "idle" },
} as const;

/** What clients of this project's containers authenticate with. */
export function ApiKeys() {
  const { project } = useProject();
  const { data: keys } = useSuspenseQuery(apiKeysQuery(project.id));
  const [creating, setCreating] = useState(false);
  // Kept here and not in its row, which may go with the old key while the new one is on the screen.
  const [rotating, setRotating] = useState<ApiKey | null>(null);
  const [shown, setShown] = useState("active");
  const active = keys.filter((one) => one.status === "active");
  const create = (
    <Button leftSection={<Plus size={16} strokeWidth={1.5} />} onClick={() => setCreating(true)}>
      Create key
    </Button>
  );
  return (
    <Page title="API keys" learn={handbook.callAnEndpoint} hint={`Each works for every container of ${project.name}: Inference calls them, Manage also changes them.`} actions={create}>
      {keys.length === 0 ? (
        <Card label="API keys">
          <Empty command="moor keys create --name my-app">
            There is no key yet. Create one to call the endpoint of a container from outside.
          </Empty>
        </Card>
      ) : (
        <Card
          flush
          title="Keys"
          action={
            <SegmentedControl
              aria-label="Which keys"
              value={shown}
              onChange={setShown}
              data={[
                { value: "active", label: `Active ${active.length}` },
                { value: "all", label: `All ${keys.length}` },
              ]}
            />
          }
        >
          <KeyTable keys={shown === "active" ? active : keys} rotating={rotating} rotate={setRotating} />
        </Card>
      )}
      {creating ? <CreateKey projectId={project.id} close={() => setCreating(false)} /> : null}
      {rotating ? <RotateKey apiKey={rotating} close={() => setRotating(null)} /> : null}
    </Page>
  );
}

interface KeyTableProps {
  keys: ApiKey[];
  rotating: ApiKey | null;
  rotate: (key: ApiKey) => void;
}

function KeyTable({ keys, rotating, rotate }: KeyTableProps) {
  const now = useNow(60_000);
  return (
    <Table
      rows={keys}
      rowKey={(key) => key.id}
      empty="No key is active. Create a new one, or look at all of them."
      columns={[
        { head: "Name", cell: (key) => <span className={classes.name}>{key.name}</span> },
        { head: "Key", wide: true, cell: (key) => <code>moor_…{key.hint}</code> },
        { head: "Scope", wide: true, cell: (key) => (key.scope === "manage" ? "Manage" : "Inference") },
        {
          head: "State",
          cell: (key) => (
            <span data-tone={STATES[key.status].tone} title={key.message ?? undefined}>
              {STATES[key.status].word}
            </span>
          ),
        },
        { head: "Last used", wide: true, cell: (key) => <LastUse apiKey={key} now={now} /> },
        { head: "Requests/min", right: true, wide: true, cell: (key) => key.requests_per_minute?.toLocaleString("en-US") ?? "No limit" },
        { head: "Created", wide: true, cell: (key) => longDate(key.created_at, now) },
        { head: "Expires", wide: true, cell: (key) => (key.expires_at ? longDate(key.expires_at, now) : "Never") },
        {
          head: "Actions",
          right: true,
          cell: (key) => <KeyActions apiKey={key} rotating={key.id === rotating?.id} rotate={() => rotate(key)} />,
        },
      ]}
    />
  );
}

/** "4 min ago from 203.0.113.7" */
function LastUse({ apiKey, now }: { apiKey: ApiKey; now: Date }) {
  if (!apiKey.last_used_at) return <span className={classes.quiet}>Never</span>;
  return (
    <>
      {since(apiKey.last_used_at, now)} ago
      {apiKey.last_used_from ? <span className={classes.quiet}> from {apiKey.last_used_from}</span> : null}
    </>
  );
}
