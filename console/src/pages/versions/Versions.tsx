import { Button } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";

import { handbook } from "@/addresses/handbook";
import { useContainer } from "@/addresses/useContainer";
import type { Container } from "@/api/queries";
import { Confirm } from "@/components/Confirm";
import { Card, Page } from "@/components/Page";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { Table } from "@/components/Table";
import { duration, shortTime, zone } from "@/components/times";
import { useNow } from "@/components/useNow";
import { useActor } from "@/containers/useActor";

import { Canary } from "./Canary";
import { Changes } from "./Changes";
import { versionsQuery, useRollBack, type Version } from "./queries";
import { Update } from "./Update";
import classes from "./Versions.module.css";

const OUTCOMES: Record<NonNullable<Version["outcome"]>, string> = {
  serving: "Serving",
  replaced: "Replaced",
  failed: "Failed",
  rolled_back: "Rolled back",
};

/** Every version of the settings: who made it, what changed, what became of it; and the way back to any of them. */
export function Versions() {
  const container = useContainer();
  const actor = useActor();
  const now = useNow(30_000);
  const [chosen, choose] = useState<number>();
  const close = () => choose(undefined);
  const rollBack = useRollBack(container, close);
  const found = useInfiniteQuery(versionsQuery(container));
  const rows = found.data?.pages.flatMap((one) => one.items) ?? [];
  return (
    <Page title="Versions" learn={handbook.updates} hint={`Secrets are shown as changed, never by value. Times in ${zone}.`}>
      {found.error && rows.length === 0 ? <ErrorNotice error={found.error} retry={found.refetch} /> : null}
      {found.isPending ? <Waiting /> : null}
      {container.rollout && rows.length > 0 ? <Trial container={container} versions={rows} back={choose} /> : null}
      {rows.length > 0 ? (
        <Card flush label="Versions">
          <Table
            rows={rows}
            rowKey={(row) => String(row.version)}
            empty="There are no versions."
            phoneLine={(row) => row.reason ?? `${actor(row.created_by)}, ${shortTime(row.created_at, now)}`}
            columns={[
              { head: "Version", cell: (row) => <strong>{row.version}</strong> },
              { head: "Outcome", cell: (row) => <Outcome version={row} container={container} /> },
              {
                head: "What changed",
                wide: true,
                cell: (row) => (
                  <div className={classes.what}>
                    <Changes version={row} />
                    {row.reason ? <p className={classes.reason}>{row.reason}</p> : null}
                  </div>
                ),
              },
              { head: "Image digest", wider: true, cell: (row) => (row.digest ? <code title={row.digest}>{short(row.digest)}</code> : "–") },
              { head: "Strategy", wider: true, cell: (row) => row.strategy ?? "–" },
              { head: "By", wide: true, cell: (row) => actor(row.created_by) },
              { head: "When", wide: true, cell: (row) => shortTime(row.created_at, now) },
              { head: "Served", right: true, wide: true, cell: (row) => (row.served_s > 0 ? duration(row.served_s * 1000) : "never") },
              {
                head: "Back",
                right: true,
                cell: (row) =>
                  row.can_roll_back && !container.rollout ? (
                    <Button size="compact-sm" variant="default" onClick={() => choose(row.version)}>
                      Roll back<span className={classes.toThis}>&nbsp;to this</span>
                    </Button>
                  ) : null,
              },
            ]}
          />
        </Card>
      ) : null}
      {found.hasNextPage ? (
        <Button variant="default" loading={found.isFetchingNextPage} onClick={() => found.fetchNextPage()}>
          Show older
        </Button>
      ) : null}
      <Confirm
        opened={chosen !== undefined}
        close={close}
        title={`Roll back to version ${chosen}?`}
        action={`Roll back to version ${chosen}`}
        confirm={() => chosen !== undefined && rollBack.mutate(chosen)}
        busy={rollBack.isPending}
      >
        Its settings, its secrets and the image that it ran come back as a new version. What serves now serves until it does.
      </Confirm>
    </Page>
  );
}

function Trial(props: { container: Container; versions: Version[]; back: (version: number) => void }) {
  return props.container.rollout?.strategy === "canary" ? <Canary {...props} /> : <Update {...props} />;
}

function Outcome({ version, container }: { version: Version; container: Container }) {
  if (container.rollout?.version === version.version) {
    const { share } = container.rollout;
    return <span data-tone="accent">{share ? `Canary ${share} %` : "On trial"}</span>;
  }
  if (!version.outcome) return <>–</>;
  const tone = { serving: "ok", replaced: undefined, failed: "bad", rolled_back: "warn" }[version.outcome];
  return <span data-tone={tone}>{OUTCOMES[version.outcome]}</span>;
}

function short(digest: string): string {
  return `${digest.slice(0, 11)}…${digest.slice(-4)}`;
}
