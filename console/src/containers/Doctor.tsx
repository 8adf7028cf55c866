import { Button, Modal, Stack } from "@mantine/core";
import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";

import { api, body, type Schemas } from "@/api/client";
import { messageOf } from "@/api/problem";
import type { Container } from "@/api/queries";
import { Waiting } from "@/components/Patterns";
import { Table } from "@/components/Table";

import classes from "./Actions.module.css";

type Findings = Schemas["Findings"];

const POLL_MS = 1_000;

const doctorQuery = (containerId: string) =>
  queryOptions({
    queryKey: ["containers", containerId, "doctor"],
    queryFn: () =>
      body(api.GET("/api/v1/containers/{container_id}/doctor", { params: { path: { container_id: containerId } } })),
    refetchInterval: (query) => (query.state.data?.state === "asked" ? POLL_MS : false),
  });

/** Looks at a container's network from inside one of its replicas, and says what it found. */
export function Doctor({ container, opened, close }: { container: Container; opened: boolean; close: () => void }) {
  return (
    <Modal opened={opened} onClose={close} title="Network doctor" size={640} closeButtonProps={{ "aria-label": "Close" }}>
      {opened ? <Diagnosis container={container} /> : null}
    </Modal>
  );
}

function Diagnosis({ container }: { container: Container }) {
  const queries = useQueryClient();
  const { mutate, error, isPending } = useMutation({
    mutationFn: () =>
      body(api.POST("/api/v1/containers/{container_id}/doctor", { params: { path: { container_id: container.id } } })),
    onSuccess: (asked) => queries.setQueryData(doctorQuery(container.id).queryKey, asked),
  });
  useEffect(() => mutate(), [mutate]);
  const { data } = useQuery({ ...doctorQuery(container.id), enabled: !isPending && !error });
  if (error) return <p role="alert">{messageOf(error)}</p>;
  if (!data || isPending || data.state === "asked") {
    return (
      <div role="status">
        <p className={classes.quiet}>Looks from inside a replica: names, public addresses, forbidden ones, what listens.</p>
        <Waiting rows={4} height={24} />
      </div>
    );
  }
  return (
    <Stack gap={16}>
      <p role="status">{data.message}</p>
      {data.findings ? <Found findings={data.findings} /> : null}
      <div className={classes.actions}>
        <Button variant="default" onClick={() => mutate()}>
          Look again
        </Button>
      </div>
    </Stack>
  );
}

function Found({ findings }: { findings: Findings }) {
  const rows = [
    ...findings.names.map((one) => ({
      what: one.name,
      found: one.failure ?? one.addresses.join(", "),
      good: one.failure === null,
    })),
    ...findings.outbound.map((one) => ({
      what: `${one.address}:${one.port}`,
      found: words(one.outcome),
      good: one.outcome === "connected",
    })),
    ...findings.forbidden.map((one) => ({
      what: `${one.address}:${one.port}`,
      found: `${words(one.outcome)}, as it should be`,
      good: one.outcome !== "connected" && one.outcome !== "refused",
    })),
    ...findings.listening.map((one) => ({ what: `listens on ${one.address}:${one.port}`, found: "", good: true })),
  ];
  return (
    <div className={classes.table}>
      <Table
        rows={rows.map((row, index) => ({ ...row, key: `${index} ${row.what}` }))}
        rowKey={(row) => row.key}
        empty="Nothing was found."
        columns={[
          { head: "Looked at", cell: (row) => <code>{row.what}</code> },
          { head: "Found", cell: (row) => <span data-tone={row.good ? "ok" : "bad"}>{row.good ? row.found : row.found.replace(", as it should be", "")}</span> },
        ]}
      />
      <p className={classes.quiet}>{findings.egress}</p>
    </div>
  );
}

function words(outcome: string): string {
  return outcome.replaceAll("_", " ");
}
