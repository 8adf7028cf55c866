import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Pencil } from "lucide-react";
import type { ReactNode } from "react";

import { paths } from "@/addresses/paths";
import { type Container, instanceTypesQuery } from "@/api/queries";
import { LinkTo } from "@/components/LinkTo";
import { Card, Facts } from "@/components/Page";
import { isStopped } from "@/components/state";

import { draftQuery } from "./queries";
import { hardware, shortDigest } from "./resources";
import { SleepFact } from "./Sleep";

/** `isHere`: on the page that its button would open. */
export function SettingsCard({ container, isHere = false }: { container: Container; isHere?: boolean }) {
  const edit = isHere ? null : (
    <Button
      component={LinkTo}
      to={paths.dashboard(container.project_id, container.id, "settings")}
      variant="subtle"
      color="var(--m-ink-2)"
      size="xs"
      my={-4}
      mr={-12}
      leftSection={<Pencil size={14} strokeWidth={1.5} />}
    >
      {container.draft ? <Staged container={container} /> : isStopped(container.state) ? "Edit" : "Stage a change"}
    </Button>
  );
  return (
    <Card title={isHere ? "What runs now" : "Settings"} hint={isHere ? `version ${container.version}` : undefined} action={edit}>
      <Facts items={useFacts(container)} />
    </Card>
  );
}

/** "2 staged changes · Review". */
function Staged({ container }: { container: Container }) {
  const count = useQuery(draftQuery(container)).data?.changes.length;
  if (container.draft?.applying) return "Changes being applied · Review";
  return `${count ? `${count} staged ${count === 1 ? "change" : "changes"}` : "Staged changes"} · Review`;
}

function useFacts(container: Container): [string, ReactNode][] {
  const types = useQuery(instanceTypesQuery).data ?? [];
  const { resources, health_check: health } = container;
  const type = types.find((one) => one.name === resources.instance_type);
  const variables = Object.keys(container.env).length + Object.keys(container.plain_env).length;
  const facts: [string, ReactNode][] = [
    ["Image", <code key="image">{container.image}</code>],
    ["Instance type", type ? `${type.name} · ${hardware(type)}` : resources.instance_type],
    ["Port", container.port ? <code key="port">{container.port}</code> : "from the image"],
    [
      "Health check",
      <span key="health">
        {health.path ? <code>GET {health.path}</code> : "port accepts a connection"}, up to {health.timeout_s} s to become healthy
      </span>,
    ],
    [
      "API path",
      <span key="path">
        <code>{container.api_path}</code>
        {container.api_path === "/v1" ? ", reached at /api/v1" : null}
      </span>,
    ],
    ["Start command", container.start_command ? <code key="start">{container.start_command}</code> : "from the image"],
    ["Sleeps", <SleepFact key="sleeps" container={container} />],
    ["Cache", container.cache ? `${container.cache.size_gib} GiB on each machine` : "none"],
    ["Environment", variables === 1 ? "1 variable" : `${variables} variables`],
    ["Infrastructure", container.infrastructure.charAt(0).toUpperCase() + container.infrastructure.slice(1)],
  ];
  if (container.image_digest) {
    facts.splice(1, 0, ["Digest", <code key="digest">{shortDigest(container.image_digest)}</code>]);
  }
  if (container.category) facts.unshift(["Category", container.category]);
  if (resources.mode === "autoscaling") {
    const { min_replicas, max_replicas, target_concurrency, scale_down_delay_s } = resources;
    const load = target_concurrency === 1 ? "1 request" : `${target_concurrency} requests`;
    const text = `${min_replicas} to ${max_replicas}, ${load} per replica, down after ${scale_down_delay_s} s`;
    facts.splice(-7, 0, ["Autoscaling", text]);
  }
  return facts;
}
