import { useQuery } from "@tanstack/react-query";

import { paths } from "@/addresses/paths";
import type { Container } from "@/api/queries";
import { LinkTo } from "@/components/LinkTo";
import { Card } from "@/components/Page";
import { shortTime } from "@/components/times";
import { useNow } from "@/components/useNow";

import { sentenceFor } from "./activities";
import classes from "./Activity.module.css";
import { activityQuery } from "./queries";

const SHOWN = 5;

export function LatestActivity({ container }: { container: Container }) {
  const now = useNow(30_000);
  const activities = useQuery(activityQuery(container.id, SHOWN)).data ?? [];
  const all = <LinkTo to={paths.dashboard(container.project_id, container.id, "activity")}>All activity</LinkTo>;
  return (
    <Card title="Latest" action={all}>
      <ol className={classes.list}>
        {activities.map((one) => {
          const { what, detail } = sentenceFor(one);
          return (
            <li key={one.id}>
              <time dateTime={one.at}>{shortTime(one.at, now)}</time>
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
