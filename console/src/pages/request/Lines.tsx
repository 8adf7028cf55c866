import { queryOptions, useQuery } from "@tanstack/react-query";

import { api, body } from "@/api/client";
import { AnsiText } from "@/components/AnsiText";
import { LinkTo } from "@/components/LinkTo";
import { Card } from "@/components/Page";
import { ErrorNotice } from "@/components/Patterns";
import { lineTime, zone } from "@/components/times";
import { shortId } from "@/containers/resources";
import type { Receipt } from "@/containers/requests/queries";
import { isFailed } from "@/containers/requests/words";
import { paths } from "@/addresses/paths";

import { placeOf } from "./place";
import classes from "./Request.module.css";

/** Of the replica's lines, the newest where it printed more. */
const MOST_LINES = 200;
/** Characters; the log has the whole line. */
const MOST_SHOWN = 1_000;

interface Entry {
  key: string;
  time: string;
  who: string;
  text: string;
  kind: "ours" | "stdout" | "stderr" | "moorage";
  /** The line has this request's id in it. */
  named: boolean;
}

const linesQuery = ({ lines, project_id, container_id, request_id }: Receipt) =>
  queryOptions({
    queryKey: ["requests", request_id, "lines", lines],
    queryFn: async () => {
      if (!lines || !container_id) return { items: [], more: false };
      const page = await body(
        api.GET("/api/v1/projects/{project_id}/logs", {
          params: {
            path: { project_id },
            query: {
              container: container_id,
              instance: lines.instance_id,
              from: lines.from_time,
              to: lines.to_time,
              limit: MOST_LINES,
            },
          },
        }),
      );
      return { items: page.items, more: page.next_cursor !== null && page.next_cursor !== undefined };
    },
    staleTime: 30_000,
  });

/** What Moorage did for it, between what its replica printed meanwhile. */
export function Lines({ receipt }: { receipt: Receipt }) {
  const { data, error, refetch } = useQuery(linesQuery(receipt));
  const printed: Entry[] = (data?.items ?? []).map((line) => ({
    key: `${line.instance_id} ${line.sequence}`,
    time: line.time,
    who: shortId(line.instance_id),
    text: line.text,
    kind: line.stream,
    named: line.text.includes(receipt.request_id),
  }));
  const ours: Entry[] = receipt.moments.map((moment, index) => ({
    key: `moment ${index}`,
    time: moment.at,
    who: moment.teller,
    text: moment.what,
    kind: "ours",
    named: false,
  }));
  // Of one that failed, what Moorage saw last: it says why.
  const telling = isFailed(receipt) ? ours.at(-1) : ours[0];
  const entries = [...ours, ...printed].sort((one, other) => Date.parse(one.time) - Date.parse(other.time));
  const containerId = placeOf(receipt);
  const named = printed.filter((one) => one.named).length;
  const markOf = (entry: Entry) => {
    if (entry === telling && isFailed(receipt)) return "bad";
    return named > 0 ? entry.named : entry === telling;
  };
  return (
    <Card
      title="Log lines around this request"
      hint={`${entries.length} lines, kept ${receipt.kept_days} days. Times in ${zone}.`}
      action={
        containerId && receipt.lines ? (
          <LinkTo
            to={paths.logsAround(receipt.project_id, containerId, {
              instance: receipt.lines.instance_id,
              until: receipt.lines.to_time,
            })}
          >
            Show among all lines
          </LinkTo>
        ) : null
      }
      flush
    >
      {error ? <ErrorNotice error={error} retry={refetch} /> : null}
      {receipt.lines && data ? <p className={classes.about}>{aboutLines(printed.length, named, data.more)}</p> : null}
      <ol className={`${classes.lines} mono`} tabIndex={0} aria-label="Lines, oldest first">
        {entries.map((entry) => (
          <li key={entry.key} data-kind={entry.kind} data-marked={markOf(entry) || undefined}>
            <time dateTime={entry.time}>{lineTime(entry.time)}</time>
            <span>{entry.who}</span>
            <span>
              <AnsiText text={entry.text} most={MOST_SHOWN} />
            </span>
          </li>
        ))}
      </ol>
    </Card>
  );
}

/** Whose lines they are cannot be known of all, and is not guessed. */
function aboutLines(printed: number, named: number, more: boolean): string {
  if (printed === 0) return "The replica printed nothing meanwhile.";
  const cut = more ? ` The last ${MOST_LINES} of them are shown.` : "";
  if (named > 0) {
    return `${named === 1 ? "The marked line names" : "The marked lines name"} this request by its id; the replica printed the others meanwhile.${cut}`;
  }
  return `The lines of the replica were printed meanwhile, perhaps for other requests too. A server that prints the header X-Request-ID marks its own.${cut}`;
}
