import { Button, SegmentedControl, Textarea } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { Suspense, useState } from "react";

import { handbook } from "@/addresses/handbook";
import { messageOf } from "@/api/problem";
import { FormDialog } from "@/components/FormDialog";
import { Card, Page } from "@/components/Page";
import { Waiting } from "@/components/Patterns";
import { type Column, Table } from "@/components/Table";
import { longDate } from "@/components/times";
import { useNow } from "@/components/useNow";

import classes from "./Operator.module.css";
import { decisions, type LimitRequest, limitRequestsQuery, useDecision } from "./queries";
import { useOrganizationName } from "./useOrganizationName";

const EMPTY = {
  pending: "Nobody waits. A container above the limit of its project asks here by itself.",
  approved: "None was granted yet.",
  refused: "None was refused.",
  withdrawn: "None was withdrawn.",
};

/** Projects that want more replicas in one container than they may have. */
export function Requests() {
  const [state, setState] = useState<LimitRequest["state"]>("pending");
  return (
    <Page
      learn={handbook.limits}
      title="Replica limits"
      hint="How many replicas one container of a project may have."
      actions={
        <SegmentedControl
          aria-label="Which requests"
          value={state}
          onChange={(value) => setState(value as LimitRequest["state"])}
          data={[
            { value: "pending", label: "Waiting" },
            { value: "approved", label: "Granted" },
            { value: "refused", label: "Refused" },
            { value: "withdrawn", label: "Withdrawn" },
          ]}
        />
      }
    >
      <Card flush label="Replica limits">
        <Suspense fallback={<Waiting />}>
          <RequestTable state={state} />
        </Suspense>
      </Card>
    </Page>
  );
}

function RequestTable({ state }: { state: LimitRequest["state"] }) {
  const { data: requests } = useSuspenseQuery(limitRequestsQuery(state));
  const nameOf = useOrganizationName();
  const now = useNow(60_000);
  const columns: Column<LimitRequest>[] = [
    { head: "Organization", cell: (row) => <span className={classes.name}>{nameOf(row.organization_id)}</span> },
    { head: "Project", wide: true, cell: (row) => <code>{row.project_id}</code> },
    { head: "Asked", wide: true, cell: (row) => longDate(row.created_at, now) },
    { head: "Note", wide: true, cell: (row) => <span className={classes.note}>{row.note ?? row.answer ?? ""}</span> },
    { head: "Limit now", right: true, wide: true, cell: (row) => row.current_limit },
    { head: "Wanted", right: true, cell: (row) => row.replicas },
  ];
  if (state === "pending")
    columns.push({ head: "Actions", right: true, cell: (row) => <Decide request={row} from={nameOf(row.organization_id)} /> });
  return (
    <Table
      rows={requests}
      rowKey={(row) => row.id}
      empty={EMPTY[state]}
      columns={columns}
      phoneLine={(row) => row.note ?? `limit now ${row.current_limit}`}
    />
  );
}

function Decide({ request, from }: { request: LimitRequest; from: string }) {
  const [asking, setAsking] = useState<"approve" | "refuse" | null>(null);
  return (
    <span className={classes.rowActions}>
      <Button size="xs" variant="subtle" color="var(--m-bad)" onClick={() => setAsking("refuse")}>
        Refuse
      </Button>
      <Button size="xs" variant="default" onClick={() => setAsking("approve")}>
        Grant
      </Button>
      {asking ? <Answer request={request} from={from} decision={asking} close={() => setAsking(null)} /> : null}
    </span>
  );
}

interface AnswerProps {
  request: LimitRequest;
  from: string;
  decision: "approve" | "refuse";
  close: () => void;
}

function Answer({ request, from, decision, close }: AnswerProps) {
  const [answer, setAnswer] = useState("");
  const grants = decision === "approve";
  const decide = useDecision(
    () => decisions[decision](request, answer.trim() || null),
    grants ? `A container of ${from} may have ${request.replicas} replicas.` : `The request of ${from} is refused.`,
    close,
  );
  return (
    <FormDialog
      opened
      close={close}
      destructive={!grants}
      title={grants ? `Grant ${request.replicas} replicas to ${from}` : `Refuse ${from}`}
      action={grants ? "Grant" : "Refuse"}
      submit={() => decide.mutate(undefined)}
      busy={decide.isPending}
    >
      <p>
        {grants
          ? `The limit of the project rises from ${request.current_limit} to ${request.replicas}. A container that waits for it starts.`
          : "A container that waits for it fails, with your answer as the reason."}
      </p>
      <Textarea
        label="Answer"
        description="Optional. Whoever asked reads it."
        data-autofocus
        rows={3}
        maxLength={1000}
        value={answer}
        onChange={(event) => setAnswer(event.currentTarget.value)}
        error={decide.error ? messageOf(decide.error) : null}
      />
    </FormDialog>
  );
}
