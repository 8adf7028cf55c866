import { Button, UnstyledButton } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";

import { handbook } from "@/addresses/handbook";
import { useContainer } from "@/addresses/useContainer";
import { Card, Page } from "@/components/Page";
import { Empty, ErrorNotice, Waiting } from "@/components/Patterns";
import { clockTime, longDate, zone } from "@/components/times";
import { useNow } from "@/components/useNow";
import { shortId } from "@/containers/resources";

import { CapsuleDetail } from "./CapsuleDetail";
import classes from "./Capsules.module.css";
import { type Capsule, capsulesQuery } from "./queries";
import { reasonInWords } from "./words";

/** What was known about each replica that ended badly: which, why, and its last lines. */
export function Capsules() {
  const container = useContainer();
  const found = useInfiniteQuery(capsulesQuery(container.id));
  const [chosen, setChosen] = useState<string | null>(null);
  const capsules = found.data?.pages.flatMap((one) => one.items) ?? [];
  const newest = capsules[0];
  const shown = capsules.find((one) => one.replica_id === chosen) ?? newest;
  return (
    <Page title="Crash reports" learn={handbook.troubleshooting} hint={capsules.length > 0 ? `What was known when a replica failed. Times in ${zone}.` : undefined}>
      {found.error && !newest ? <ErrorNotice error={found.error} retry={found.refetch} /> : null}
      {found.isPending ? <Waiting /> : null}
      {found.data && !newest ? (
        <Card label="Crash reports" flush>
          <Empty command={`moor capsules ${container.name}`}>
            No replica has crashed. When one does, its last 200 log lines, its health checks and its exit code are kept here. From
            the command line:
          </Empty>
        </Card>
      ) : null}
      {shown ? (
        <div className={classes.columns}>
          <Card label="Reports" flush>
            <ul className={classes.list}>
              {capsules.map((one) => (
                <Entry key={one.replica_id} capsule={one} selected={one === shown} select={() => setChosen(one.replica_id)} />
              ))}
            </ul>
            {found.hasNextPage ? (
              <div className={classes.older}>
                <Button variant="default" loading={found.isFetchingNextPage} onClick={() => found.fetchNextPage()}>
                  Show older
                </Button>
              </div>
            ) : null}
          </Card>
          <CapsuleDetail key={shown.replica_id} container={container} capsule={shown} isNewest={shown === newest} />
        </div>
      ) : null}
    </Page>
  );
}

function Entry({ capsule, selected, select }: { capsule: Capsule; selected: boolean; select: () => void }) {
  const now = useNow(60_000);
  const at = capsule.ended_at ?? capsule.written_at;
  return (
    <li>
      <UnstyledButton
        className={classes.entry}
        data-selected={selected || undefined}
        aria-current={selected ? "true" : undefined}
        onClick={select}
      >
        <strong>{reasonInWords(capsule)}</strong>
        <time dateTime={at}>
          {longDate(at, now)} {clockTime(at)}
        </time>
        <span>
          <code>{shortId(capsule.replica_id)}</code> on {capsule.node}
        </span>
        <span>{capsule.exit_code === null ? "" : `exit ${capsule.exit_code}`}</span>
      </UnstyledButton>
    </li>
  );
}
