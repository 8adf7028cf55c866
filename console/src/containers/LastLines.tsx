import { useQuery } from "@tanstack/react-query";

import { paths } from "@/addresses/paths";
import type { Container } from "@/api/queries";
import { AnsiText } from "@/components/AnsiText";
import { LinkTo } from "@/components/LinkTo";
import { Card } from "@/components/Page";
import { clockTime } from "@/components/times";

import classes from "./Activity.module.css";
import { lastLinesQuery } from "./queries";

const SHOWN = 8;

export function LastLines({ container }: { container: Container }) {
  const lines = useQuery(lastLinesQuery(container.id, SHOWN)).data ?? [];
  if (lines.length === 0) return null;
  const all = <LinkTo to={paths.dashboard(container.project_id, container.id, "logs")}>All logs</LinkTo>;
  return (
    <Card title="Last log lines" action={all} flush>
      <div className={`${classes.lines} mono`} tabIndex={0} role="region" aria-label="Last log lines">
        {lines.map((line) => (
          <div key={`${line.instance_id} ${line.sequence}`} className={classes.line} data-stream={line.stream}>
            <time dateTime={line.time}>{clockTime(line.time, true)}</time>
            {line.stream === "moorage" ? <b>Moorage: </b> : null}
            <AnsiText text={line.text} />
          </div>
        ))}
      </div>
    </Card>
  );
}
