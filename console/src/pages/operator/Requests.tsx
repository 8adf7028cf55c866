import { Button, SegmentedControl, Textarea } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { Suspense, useState } from "react";

import { handbook } from "@/addresses/handbook";
import { paths } from "@/addresses/paths";
import { messageOf } from "@/api/problem";
import { FormDialog } from "@/components/FormDialog";
import { LinkTo } from "@/components/LinkTo";
import { Card, Page } from "@/components/Page";
import { Waiting } from "@/components/Patterns";
import { type Column, Table } from "@/components/Table";
import { longDate } from "@/components/times";
import { useNow } from "@/components/useNow";

import classes from "./Operator.module.css";
import { decisions, type LimitRequest, limitRequestsQuery, useDecision } from "./queries";
import { useOrganizationName } from "./useOrganizationName";
import { useProjectNames } from "./useProjectNames";

const EMPTY = {
  pending: "No request is waiting. One appears here when a container wants more replicas than its project may have.",
  approved: "No request has been granted yet.",
  refused: "No request has been refused.",
  withdrawn: "No request has been withdrawn.",
};

/** Projects that want more replicas in one container than they may have. */
export function Requests() {
  const [state, setState] = useState<LimitRequest["state"]>("pending");
  return (
    <Page
      learn={handbook.limits}
      title="Replica limits"
      hint="Requests for more replicas in one container than the limit of its project."
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
  const projectNames = useProjectNames(requests.map((one) => one.organization_id));
  const now = useNow(60_000);
  const columns: Column<LimitRequest>[] = [
    {
      head: "Organization",
      cell: (row) => (
        <LinkTo className={classes.name} to={paths.operatorOrganization(row.organization_id)}>
          {nameOf(row.organization_id)}
        </LinkTo>
      ),
    },
    { head: "Project", wide: true, cell: (row) => projectNames.get(row.project_id) ?? <code>{row.project_id}</code> },
    { head: "Requested", wide: true, cell: (row) => longDate(row.created_at, now) },
    { head: "Note", wide: true, cell: (row) => <span className={classes.note}>{row.note ?? row.answer ?? ""}</span> },
    { head: "Replicas", right: true, cell: (row) => (state === "pending" ? `${row.current_limit} → ${row.replicas}` : row.replicas) },
  ];
  if (state === "pending")
    columns.push({ head: "Actions", right: true, cell: (row) => <Decide request={row} from={nameOf(row.organization_id)} /> });
  return (
    <Table
      rows={requests}
      rowKey={(row) => row.id}
      empty={EMPTY[state]}
      columns={columns}
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
          ? `The project's limit rises from ${request.current_limit} to ${request.replicas}. A container that waits for it starts.`
          : "A container that waits for it fails, with your answer as the reason."}
      </p>
      <Textarea
        label="Answer"
        description="Optional. The person who asked reads it."
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
