import { Badge, Button } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { CircleMinus, GitBranch, TriangleAlert, Undo2 } from "lucide-react";
import { type ReactNode, useState } from "react";

import { handbook } from "@/addresses/handbook";
import { paths } from "@/addresses/paths";
import { useContainer } from "@/addresses/useContainer";
import type { Container } from "@/api/queries";
import { Confirm } from "@/components/Confirm";
import { LinkTo } from "@/components/LinkTo";
import { Card, Page } from "@/components/Page";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { StateIcon } from "@/components/StateIcon";
import { Table } from "@/components/Table";
import { dateAndTime, duration, zone } from "@/components/times";
import { useNow } from "@/components/useNow";
import { STRATEGIES } from "@/containers/strategies";
import { useActor } from "@/containers/useActor";

import { Canary } from "./Canary";
import { Changes } from "./Changes";
import { versionsQuery, useRollBack, type Version } from "./queries";
import { Update } from "./Update";
import classes from "./Versions.module.css";

const ICON = { size: 14, strokeWidth: 1.5, "aria-hidden": true };

const OUTCOMES: Record<NonNullable<Version["outcome"]>, { word: string; tone: string; icon: ReactNode }> = {
  serving: { word: "Serving", tone: "ok", icon: <StateIcon state="RUNNING" size={14} /> },
  replaced: { word: "Replaced", tone: "idle", icon: <CircleMinus {...ICON} /> },
  failed: { word: "Failed", tone: "bad", icon: <TriangleAlert {...ICON} /> },
  rolled_back: { word: "Rolled back", tone: "warn", icon: <Undo2 {...ICON} /> },
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
  const again = rows.find((row) => row.version === chosen);
  return (
    <Page
      title="Versions"
      learn={handbook.updates}
      hint={`Secrets are shown as changed, never by value. Times in ${zone}.`}
      actions={
        <Button component={LinkTo} to={paths.dashboard(container.project_id, container.id, "settings")} variant="default">
          {container.draft?.saved_at ? "Review staged changes" : "Stage a change"}
        </Button>
      }
    >
      {found.error && rows.length === 0 ? <ErrorNotice error={found.error} retry={found.refetch} /> : null}
      {found.isPending ? <Waiting /> : null}
      {container.rollout && rows.length > 0 ? <Trial container={container} versions={rows} back={choose} /> : null}
      {rows.length > 0 ? (
        <Card flush label="Versions">
          <Table
            rows={rows}
            rowKey={(row) => String(row.version)}
            empty="There are no versions."
            columns={[
              { head: "Version", cell: (row) => <VersionNumber version={row} container={container} /> },
              { head: "Outcome", cell: (row) => <Outcome version={row} container={container} /> },
              {
                head: "What changed",
                wide: true,
                cell: (row) => <What version={row} />,
              },
              { head: "Image digest", wider: true, cell: (row) => (row.digest ? <code title={row.digest}>{short(row.digest)}</code> : "–") },
              { head: "Strategy", wider: true, cell: (row) => (row.strategy ? STRATEGIES[row.strategy] : "–") },
              { head: "By", wide: true, cell: (row) => actor(row.created_by) },
              { head: "When", wide: true, cell: (row) => dateAndTime(row.created_at, now) },
              { head: "Served", right: true, wide: true, cell: (row) => (row.served_s > 0 ? duration(row.served_s * 1000) : "never") },
              {
                head: "Actions",
                right: true,
                cell: (row) =>
                  row.can_roll_back && !container.rollout ? (
                    <Again version={row} choose={choose} />
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
        title={`${again && wentWrong(again) ? `Deploy version ${chosen} again` : `Roll back to version ${chosen}`}?`}
        action={again && wentWrong(again) ? `Deploy version ${chosen} again` : `Roll back to version ${chosen}`}
        confirm={() => chosen !== undefined && rollBack.mutate(chosen)}
        busy={rollBack.isPending}
      >
        {again?.reason ? `Last time: ${again.reason} ` : ""}
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
    return (
      <Marked tone="accent">
        <GitBranch {...ICON} /> {share ? `Canary ${share} %` : "On trial"}
      </Marked>
    );
  }
  if (!version.outcome) return <>–</>;
  const { word, tone, icon } = OUTCOMES[version.outcome];
  return (
    <Marked tone={tone}>
      {icon} {word}
    </Marked>
  );
}

function Marked({ tone, children }: { tone: string; children: ReactNode }) {
  return (
    <span className={classes.outcome} data-tone={tone}>
      {children}
    </span>
  );
}

function VersionNumber({ version, container }: { version: Version; container: Container }) {
  return (
    <span className={classes.number}>
      <strong>{version.version}</strong>
      {version.outcome === "serving" && !container.rollout ? (
        <Badge variant="light" size="sm" tt="none">
          Current
        </Badge>
      ) : null}
    </span>
  );
}

function What({ version }: { version: Version }) {
  return (
    <div className={classes.what}>
      <Changes version={version} />
      {version.reason ? (
        <p className={classes.reason} data-went-back={version.outcome === "rolled_back" || undefined}>
          {version.reason}
        </p>
      ) : null}
    </div>
  );
}

/** What went wrong once can be tried again, but that is no way back to something that worked. */
function Again({ version, choose }: { version: Version; choose: (version: number) => void }) {
  if (wentWrong(version))
    return (
      <Button size="compact-sm" variant="subtle" color="var(--m-ink-2)" onClick={() => choose(version.version)}>
        Deploy again
      </Button>
    );
  return (
    <Button size="compact-sm" variant="default" onClick={() => choose(version.version)}>
      Roll back<span className={classes.toThis}>&nbsp;to this</span>
    </Button>
  );
}

function wentWrong({ outcome }: Version): boolean {
  return outcome === "rolled_back" || outcome === "failed";
}

function short(digest: string): string {
  return `${digest.slice(0, 11)}…${digest.slice(-4)}`;
}
