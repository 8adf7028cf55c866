import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { RotateCcw } from "lucide-react";

import type { Container } from "@/api/queries";
import { dollars } from "@/components/Money";
import { Card } from "@/components/Page";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { StateBadge } from "@/components/StateBadge";
import { isStopped } from "@/components/state";
import { shortTime } from "@/components/times";
import { useNow } from "@/components/useNow";
import { fieldName } from "@/containers/fieldNames";

import { draftQuery, type StagedDraft, useApplyDraft, useDiscardDraft } from "./queries";
import classes from "./Settings.module.css";

/** Of the requests, for a canary that begins here; the page of versions has a slider. */
const FIRST_SHARE = 10;

/** Changes that wait, that are being applied, or that were given up: what differs, and what it costs. */
export function DraftCard({ container, edit }: { container: Container; edit?: () => void }) {
  const { data: draft, error } = useQuery(draftQuery(container));
  const now = useNow(30_000);
  if (error) return <ErrorNotice error={error} />;
  if (!draft) return <Waiting />;
  const hint = draft.saved_at ? `since ${shortTime(draft.saved_at, now)}` : undefined;
  return (
    <Card
      title={draft.applying ? "Being applied" : "Staged changes"}
      hint={hint}
      action={draft.applying ? <StateBadge state={container.state} /> : <Actions container={container} edit={edit} />}
    >
      {draft.failure ? <GivenUp failure={draft.failure} now={now} /> : null}
      <Difference draft={draft} />
      <p className={classes.price}>
        <Price draft={draft} />
      </p>
      <p className={classes.quiet}>{promise(container, draft)}</p>
    </Card>
  );
}

function promise(container: Container, draft: StagedDraft): string {
  if (draft.applying) return "If it does not become healthy, the settings from before come back by themselves.";
  if (isStopped(container.state)) return "Applying starts it with these settings.";
  return (
    "Applying fetches the image first. Beside: the old version serves until the new one has served well for a while, and stays if it " +
    `does not; ${needs(draft)}. Canary: it gets a share of the requests, until you or a rule decide. Stop and start: the settings from before come back by themselves if it does not become healthy.`
  );
}

/** What two versions beside each other take. */
function needs({ rolling }: StagedDraft): string {
  const cost = rolling.cost_microusd > 0 ? `that buys ${dollars(rolling.cost_microusd)} of hours` : "that costs nothing more";
  return rolling.room_for >= rolling.beside_at_least ? cost : `${cost}, but no machine has room for it now`;
}

function Actions({ container, edit }: { container: Container; edit?: (() => void) | undefined }) {
  const apply = useApplyDraft(container);
  const discard = useDiscardDraft(container);
  return (
    <>
      <Button variant="subtle" color="var(--m-bad)" loading={discard.isPending} onClick={() => discard.mutate()}>
        Discard
      </Button>
      {edit ? (
        <Button variant="default" onClick={edit}>
          Edit
        </Button>
      ) : null}
      {isStopped(container.state) ? (
        <Button loading={apply.isPending} onClick={() => apply.mutate({ strategy: "replace" })}>
          Apply
        </Button>
      ) : (
        <>
          <Button variant="default" loading={apply.isPending} onClick={() => apply.mutate({ strategy: "replace" })}>
            Stop and start
          </Button>
          <Button variant="default" loading={apply.isPending} onClick={() => apply.mutate({ strategy: "canary", share: FIRST_SHARE })}>
            Canary {FIRST_SHARE} %
          </Button>
          <Button loading={apply.isPending} onClick={() => apply.mutate({ strategy: "rolling" })}>
            Apply beside
          </Button>
        </>
      )}
    </>
  );
}

function GivenUp({ failure, now }: { failure: NonNullable<StagedDraft["failure"]>; now: Date }) {
  return (
    <div className={classes.givenUp} role="alert">
      <RotateCcw size={16} strokeWidth={1.5} aria-hidden />
      <div>
        <strong>Applied, and taken back at {shortTime(failure.at, now)}.</strong>
        <p>{failure.message} The settings from before serve again.</p>
      </div>
    </div>
  );
}

function Difference({ draft }: { draft: StagedDraft }) {
  if (draft.changes.length === 0) return <p className={classes.quiet}>Nothing differs from what runs.</p>;
  return (
    <dl className={classes.changes}>
      {draft.changes.map((change) => (
        <div key={change.field}>
          <dt>{fieldName(change.field)}</dt>
          <dd>
            {change.from === null ? null : <del>{change.from}</del>}
            {change.to === null ? null : <ins>{change.to}</ins>}
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Price({ draft }: { draft: StagedDraft }) {
  const { price_per_hour_microusd: each, least_cost_per_hour_microusd: least } = draft;
  if (each.from === each.to && least.from === least.to)
    return (
      <>
        Costs the same: <strong>{dollars(least.to)}/h</strong>
      </>
    );
  return (
    <>
      {dollars(least.from)}/h now, <strong>{dollars(least.to)}/h</strong> after
      {least.to === each.to ? "" : `, ${dollars(each.to)}/h each replica`}
    </>
  );
}
