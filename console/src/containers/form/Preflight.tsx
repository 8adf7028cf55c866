import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, queryOptions, useQuery } from "@tanstack/react-query";
import { Check, CircleAlert } from "lucide-react";

import { api, body } from "@/api/client";
import { messageOf, Problem } from "@/api/problem";
import { size } from "@/components/sizes";

import { type Draft, registryOf } from "./draft";
import classes from "./Form.module.css";

const TYPING_PAUSE_MS = 600;

const preflightQuery = (projectId: string, draft: Pick<Draft, "image" | "port"> & { registry: ReturnType<typeof registryOf> }) =>
  queryOptions({
    queryKey: ["preflight", projectId, draft],
    queryFn: ({ signal }) =>
      body(
        api.POST("/api/v1/projects/{project_id}/containers/preflight", {
          params: { path: { project_id: projectId } },
          body: { image: draft.image, registry: draft.registry, port: draft.port },
          signal,
        }),
      ),
    enabled: draft.image !== "",
    staleTime: 60_000,
    retry: false,
    placeholderData: keepPreviousData,
  });

/** Asks the image's registry while it is being typed: whether it is there, fits the machines, and where it listens. */
export function Preflight({ projectId, draft }: { projectId: string; draft: Draft }) {
  const asked = { image: draft.image.trim(), port: draft.port, registry: registryOf(draft) };
  const [paused] = useDebouncedValue(JSON.stringify(asked), TYPING_PAUSE_MS);
  const { data: found, error, isFetching } = useQuery(preflightQuery(projectId, JSON.parse(paused) as typeof asked));
  if (!asked.image) return null;
  if (isFetching || paused !== JSON.stringify(asked)) {
    return <p className={classes.asking}>Asking the registry …</p>;
  }
  if (error) return <NotFound title={fieldError(error)} />;
  if (!found) return null;
  if (!found.ok) return <NotFound title={found.message} />;
  const facts: [string, string][] = [
    ["Image found", found.image],
    ...(found.platforms?.length ? ([[found.platforms.join(", "), "platforms of the image"]] as [string, string][]) : []),
    ...(found.port ? ([[`Port ${found.port}`, portHint(found.exposed_ports ?? [], found.port)]] as [string, string][]) : []),
    ...(found.size_bytes ? ([[size(found.size_bytes), "to pull"]] as [string, string][]) : []),
  ];
  return (
    <section className={classes.preflight} data-ok aria-label="Pre-flight">
      <header>
        <Check size={16} strokeWidth={2} aria-hidden /> <strong>{found.digest ? "Pre-flight passed" : found.message}</strong>
        {found.digest ? <code>{`${found.digest.slice(0, 11)}…${found.digest.slice(-4)}`}</code> : null}
      </header>
      {found.digest ? (
        <ul className={classes.preflightFacts}>
          {facts.map(([title, text]) => (
            <li key={title}>
              <strong>{title}</strong>
              <span>{text}</span>
            </li>
          ))}
        </ul>
      ) : null}
      {(found.warnings ?? []).map((warning) => (
        <p key={warning} className={classes.warning}>
          {warning}
        </p>
      ))}
    </section>
  );
}

function NotFound({ title }: { title: string }) {
  return (
    <section className={classes.preflight} aria-label="Pre-flight">
      <header>
        <CircleAlert size={16} strokeWidth={1.5} aria-hidden /> <strong>{title}</strong>
      </header>
      <p>You can go on; it is asked again before the container starts.</p>
    </section>
  );
}

function fieldError(error: unknown): string {
  return (error instanceof Problem && Object.values(error.fields())[0]) || messageOf(error);
}

function portHint(exposed: number[], port: number): string {
  return exposed.includes(port) ? "matches EXPOSE" : "where it must listen";
}
