import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Pencil } from "lucide-react";
import type { ReactNode } from "react";

import { instanceTypesQuery } from "@/api/queries";
import type { Draft } from "@/containers/form/draft";
import { hardware } from "@/containers/resources";

import classes from "./Create.module.css";
import { type Filled, isAsFilled } from "./start/origin";
import type { CreateStep } from "./steps";

interface ReviewProps {
  draft: Draft;
  go: (step: CreateStep) => void;
  /** What the settings were filled in with, where it was a model. */
  filled: Filled | null;
  /** Variables beside the draft's own. */
  preset: string[];
}

export function Review({ draft, go, filled, preset }: ReviewProps) {
  const type = useQuery(instanceTypesQuery).data?.find((one) => one.name === draft.instanceType);
  const scaling = `Autoscaling, ${draft.min} to ${draft.max}, target ${draft.target} in flight, down after ${draft.delay} s`;
  const own = draft.env.filter((one) => one.name);
  const variables = [
    ...preset.filter((name) => !own.some((one) => one.name === name)),
    ...own.map((one) => (one.plain ? `${one.name}=${one.value ?? ""}` : `${one.name} ••••••••`)),
  ];
  return (
    <>
      {filled ? <ModelSection filled={filled} isChanged={!isAsFilled(draft, filled)} edit={() => go("start")} /> : null}
      <Section title="Base settings" edit={() => go("base")}>
        <Line name="Name">{draft.name}</Line>
        {draft.category ? <Line name="Category">{draft.category}</Line> : null}
        <Line name="Image">
          <code>{draft.image}</code>
        </Line>
        <Line name="Registry">
          {draft.provider}
          {draft.isPrivate ? (
            <>
              , private, as <code>{draft.username}</code>
            </>
          ) : null}
        </Line>
      </Section>
      <Section title="Resources" edit={() => go("resources")}>
        <Line name="Instance type">{type ? `${type.name} · ${hardware(type)}` : draft.instanceType}</Line>
        {draft.infrastructure === "operator" ? null : (
          <Line name="Machines">
            {draft.infrastructure === "any" ? "operator or community" : "community"}: their owners can read what runs there
          </Line>
        )}
        <Line name="Replicas">{draft.mode === "general" ? "Fixed, one replica" : scaling}</Line>
      </Section>
      <Section title="Advanced" edit={() => go("advanced")}>
        <Line name="Start command">{draft.startCommand ? <code>{draft.startCommand}</code> : "from the image"}</Line>
        <Line name="Port">{draft.port ? <code>{draft.port}</code> : "from the image, else 8000"}</Line>
        <Line name="Health check">
          {draft.healthPath ? <code>GET {draft.healthPath}</code> : "the port accepts a connection"},{" "}
          {draft.healthTimeout} s to become ready
        </Line>
        <Line name="API path">
          <code>{draft.apiPath}</code>
          {draft.apiPath === "/v1" ? ", reached at /api/v1" : null}
        </Line>
        <Line name="Cache">{draft.cacheGib ? `${draft.cacheGib} GiB on each machine` : "none"}</Line>
        <Line name="Environment">{variables.length ? <code>{variables.join(", ")}</code> : "none"}</Line>
      </Section>
    </>
  );
}

function ModelSection({ filled, isChanged, edit }: { filled: Filled; isChanged: boolean; edit: () => void }) {
  const load = [
    filled.context ? `${filled.context.toLocaleString("en-US")} tokens` : null,
    filled.requests ? `${filled.requests.toLocaleString("en-US")} at once` : null,
  ].filter(Boolean);
  return (
    <Section title="Model" edit={edit}>
      <Line name="Model">
        <code>{filled.model}</code>
      </Line>
      <Line name="Server">{filled.templateTitle}</Line>
      {load.length > 0 ? <Line name="Requests">{load.join(", ")}</Line> : null}
      {isChanged ? (
        <Line name="Memory">You have changed what the template set, so nobody checks again that the model fits.</Line>
      ) : null}
    </Section>
  );
}

function Section({ title, edit, children }: { title: string; edit: () => void; children: ReactNode }) {
  return (
    <section className={classes.card} aria-label={title}>
      <header className={classes.sectionHead}>
        <h3>{title}</h3>
        <Button
          variant="subtle"
          color="var(--m-ink-2)"
          size="xs"
          leftSection={<Pencil size={14} strokeWidth={1.5} />}
          aria-label={`Edit ${title}`}
          onClick={edit}
        >
          Edit
        </Button>
      </header>
      <dl className={classes.lines}>{children}</dl>
    </section>
  );
}

function Line({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
