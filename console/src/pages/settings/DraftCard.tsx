import { useQuery } from "@tanstack/react-query";
import { RotateCcw } from "lucide-react";

import type { Container } from "@/api/queries";
import { fieldName } from "@/components/fieldNames";
import { Card } from "@/components/Page";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { StateBadge } from "@/components/StateBadge";
import { shortTime } from "@/components/times";
import { useNow } from "@/components/useNow";
import { draftQuery, type StagedDraft } from "@/containers/queries";

import { Apply } from "./Apply";
import { draftPrice } from "./draftPrice";
import classes from "./Settings.module.css";

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
      action={draft.applying ? <StateBadge state={container.state} /> : null}
    >
      {draft.failure ? <GivenUp failure={draft.failure} now={now} /> : null}
      <Difference draft={draft} />
      <p className={classes.price}>
        <Price draft={draft} container={container} />
      </p>
      {draft.applying ? (
        <p className={classes.quiet}>If it does not become healthy, the settings from before come back by themselves.</p>
      ) : (
        <Apply container={container} draft={draft} edit={edit} />
      )}
    </Card>
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
            <Side of={change.field} value={change.from} as="del" />
            <Side of={change.field} value={change.to} as="ins" />
          </dd>
        </div>
      ))}
    </dl>
  );
}

const OF_THE_IMAGE = new Set(["start_command", "port"]);

function Side({ of, value, as: Mark }: { of: string; value: string | number | null; as: "del" | "ins" }) {
  const shown = value ?? (OF_THE_IMAGE.has(of) ? "from the image" : null);
  return shown === null ? null : <Mark>{shown}</Mark>;
}

function Price({ draft, container }: { draft: StagedDraft; container: Container }) {
  const { before, strong, after } = draftPrice(draft, container);
  return (
    <>
      {before}
      <strong>{strong}</strong>
      {after}
    </>
  );
}
