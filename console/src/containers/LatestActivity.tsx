import { useQuery } from "@tanstack/react-query";

import { paths } from "@/addresses/paths";
import type { Container } from "@/api/queries";
import { LinkTo } from "@/components/LinkTo";
import { Card } from "@/components/Page";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { dateAndTime } from "@/components/times";
import { useNow } from "@/components/useNow";

import { sentenceFor } from "./activities";
import classes from "./Activity.module.css";
import { activityQuery } from "./queries";

const SHOWN = 5;

export function LatestActivity({ container }: { container: Container }) {
  const now = useNow(30_000);
  const { data: activities, error, refetch } = useQuery(activityQuery(container.id, SHOWN));
  const all = <LinkTo to={paths.dashboard(container.project_id, container.id, "activity")}>All activity</LinkTo>;
  return (
    <Card title="Latest" action={all}>
      {error && !activities ? <ErrorNotice error={error} retry={refetch} /> : null}
      {!activities && !error ? <Waiting rows={SHOWN} /> : null}
      {activities?.length === 0 ? <p className={classes.none}>Nothing has happened yet.</p> : null}
      <ol className={classes.list}>
        {activities?.map((one) => {
          const { what, detail } = sentenceFor(one);
          return (
            <li key={one.id}>
              <time dateTime={one.at}>{dateAndTime(one.at, now)}</time>
              <span>
                <strong>{what}</strong> <span className={classes.detail}>{detail}</span>
              </span>
            </li>
          );
        })}
      </ol>
    </Card>
  );
}
