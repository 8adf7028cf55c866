import { Button } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, queryOptions, useQuery } from "@tanstack/react-query";
import { Check, CircleAlert, CircleDashed } from "lucide-react";
import { type ReactNode, useState } from "react";

import { api, body, type Schemas } from "@/api/client";
import { messageOf, Problem } from "@/api/problem";
import { size } from "@/components/sizes";
import { clockTime } from "@/components/times";

import { type Draft, registryOf } from "./draft";
import classes from "./Form.module.css";

const TYPING_PAUSE_MS = 600;

export const preflightQuery = (projectId: string, draft: Pick<Draft, "image" | "port"> & { registry: ReturnType<typeof registryOf> }) =>
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

interface PreflightProps {
  projectId: string;
  draft: Draft;
  /** Where settings can be changed: what a known server wants is offered there. */
  change?: (changes: Partial<Draft>) => void;
}

/** Asks the image's registry while it is being typed: whether it is there, fits the machines, and where it listens. */
export function Preflight({ projectId, draft, change }: PreflightProps) {
  const asked = { image: draft.image.trim(), port: draft.port, registry: registryOf(draft) };
  const [paused] = useDebouncedValue(JSON.stringify(asked), TYPING_PAUSE_MS);
  const { data: found, error, isFetching, dataUpdatedAt } = useQuery(preflightQuery(projectId, JSON.parse(paused) as typeof asked));
  const [taken, setTaken] = useState<Taken | null>(null);
  if (!asked.image) return null;
  if (isFetching || paused !== JSON.stringify(asked)) {
    return <p className={classes.asking}>Asking the registry …</p>;
  }
  if (error) return <NotFound title={fieldError(error)} />;
  if (!found) return null;
  const proposed = change ? <Proposed proposal={found.proposal ?? null} {...{ taken, setTaken, draft, change }} /> : null;
  if (!found.ok) return <NotFound title={found.message}>{proposed}</NotFound>;
  const facts: [string, string][] = [
    ["Image found", draft.isPrivate && draft.username ? `with the credentials of ${draft.username}` : "without credentials"],
    ...(found.platforms?.length ? ([[found.platforms.join(", "), "fits the machines here"]] as [string, string][]) : []),
    ...(found.port ? ([[`Port ${found.port}`, portHint(found.exposed_ports ?? [], found.port)]] as [string, string][]) : []),
    ...(found.size_bytes ? ([[size(found.size_bytes), "to pull"]] as [string, string][]) : []),
  ];
  return (
    <section className={classes.preflight} data-ok={found.digest ? true : undefined} data-unchecked={found.digest ? undefined : true} aria-label="Pre-flight">
      <header>
        {found.digest ? <Check size={16} strokeWidth={2} aria-hidden /> : <CircleDashed size={16} strokeWidth={1.5} aria-hidden />}{" "}
        <strong>{found.digest ? "Pre-flight passed" : found.message}</strong>
        {found.digest ? <code>{`${found.digest.slice(0, 11)}…${found.digest.slice(-4)}`}</code> : null}
        {found.digest ? <time dateTime={new Date(dataUpdatedAt).toISOString()}>{clockTime(new Date(dataUpdatedAt).toISOString())}</time> : null}
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
      {proposed}
      {(found.warnings ?? []).map((warning) => (
        <p key={warning} className={classes.warning}>
          {warning}
        </p>
      ))}
    </section>
  );
}

type Proposal = Schemas["SettingsProposal"];
type Proposable = Pick<Draft, "apiPath" | "port" | "healthPath">;

interface Taken {
  proposal: Proposal;
  /** What was set before the first one was taken. */
  before: Proposable;
}

interface ProposedProps {
  proposal: Proposal | null;
  /** The last one that somebody took: it may have been of another image. */
  taken: Taken | null;
  setTaken: (taken: Taken | null) => void;
  draft: Draft;
  change: (changes: Partial<Draft>) => void;
}

/** Known of the image, and taken only when somebody says so. */
function Proposed({ proposal, taken, setTaken, draft, change }: ProposedProps) {
  if (proposal) {
    const take = () => {
      const { apiPath, port, healthPath } = draft;
      setTaken({ proposal, before: taken && holds(draft, taken.proposal) ? taken.before : { apiPath, port, healthPath } });
      change(settingsOf(proposal));
    };
    return (
      <div className={classes.proposal}>
        <p>{proposal.message}</p>
        {holds(draft, proposal) ? <span role="status">Set so.</span> : <Offer words="Use these settings" take={take} />}
      </div>
    );
  }
  if (!taken || !holds(draft, taken.proposal)) return null;
  const { api_path, port, health_path, server } = taken.proposal;
  const undo = () => {
    change(taken.before);
    setTaken(null);
  };
  return (
    <div className={classes.proposal}>
      <p>{`API path ${api_path}, port ${port} and health path ${health_path} were set for ${server}.`}</p>
      <Offer words="Take them back" take={undo} />
    </div>
  );
}

function Offer({ words, take }: { words: string; take: () => void }) {
  return (
    <Button variant="default" size="xs" onClick={take}>
      {words}
    </Button>
  );
}

function settingsOf(proposal: Proposal): Proposable {
  return { apiPath: proposal.api_path, port: proposal.port, healthPath: proposal.health_path };
}

function holds(draft: Draft, proposal: Proposal): boolean {
  const { apiPath, port, healthPath } = settingsOf(proposal);
  return draft.apiPath === apiPath && draft.port === port && draft.healthPath === healthPath;
}

function NotFound({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <section className={classes.preflight} aria-label="Pre-flight">
      <header>
        <CircleAlert size={16} strokeWidth={1.5} aria-hidden /> <strong>{title}</strong>
      </header>
      <p>You can go on; it is asked again before the container starts.</p>
      {children}
    </section>
  );
}

function fieldError(error: unknown): string {
  return (error instanceof Problem && Object.values(error.fields())[0]) || messageOf(error);
}

function portHint(exposed: number[], port: number): string {
  return exposed.includes(port) ? "matches EXPOSE" : "where it must listen";
}
