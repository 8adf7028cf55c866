import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { Check, Download, TriangleAlert } from "lucide-react";

import { Copy } from "@/components/Copy";
import { LinkTo } from "@/components/LinkTo";
import { Waiting } from "@/components/Patterns";
import { clockTime, longDate } from "@/components/times";
import { useNow } from "@/components/useNow";
import { type Receipt, receiptQuery } from "@/containers/requests/queries";
import { isFailed } from "@/containers/requests/words";
import { paths } from "@/addresses/paths";

import { Lines } from "./Lines";
import { NoReceipt } from "./NoReceipt";
import { placeOf } from "./place";
import { ReceiptFacts } from "./ReceiptFacts";
import classes from "./Request.module.css";
import { Where } from "./Where";

/** One request: why it took as long as it did, who answered it, what was printed meanwhile, and what it cost. */
export function Request() {
  const { requestId } = useParams({ strict: false }) as { requestId: string };
  const { data, error, refetch } = useQuery(receiptQuery(requestId));
  if (!data) return error ? <NoReceipt requestId={requestId} error={error} retry={refetch} /> : <Waiting rows={6} height={40} />;
  return (
    <main className={classes.page}>
      <Head receipt={data} />
      <div className={classes.columns}>
        <div className={classes.column}>
          <Where receipt={data} />
          <Lines receipt={data} />
        </div>
        <div className={classes.column}>
          <ReceiptFacts receipt={data} />
        </div>
      </div>
    </main>
  );
}

function Head({ receipt }: { receipt: Receipt }) {
  const now = useNow(60_000);
  const { request_id, started_at, status, total_ms } = receipt;
  const containerId = placeOf(receipt);
  const failed = isFailed(receipt);
  const began = new Date(started_at);
  const day = began.toDateString() === now.toDateString() ? "today" : longDate(started_at, now);
  const Icon = failed ? TriangleAlert : Check;
  return (
    <header className={classes.head}>
      {containerId ? (
        <>
          <LinkTo to={paths.dashboard(receipt.project_id, containerId, "logs")}>Logs</LinkTo>
          <span className={classes.slash} aria-hidden>
            /
          </span>
        </>
      ) : null}
      <h1>Request</h1>
      <span className={classes.id}>
        <code>{request_id}</code>
        <Copy text={request_id} label="Copy request id" />
      </span>
      <span className={classes.badge} data-tone={failed ? "bad" : "ok"}>
        <Icon size={14} strokeWidth={2} aria-hidden /> {status ?? "no answer"}
      </span>
      <span className={classes.quiet}>
        {day} {clockTime(started_at)}, {(total_ms / 1000).toFixed(2)} s
        {!containerId && receipt.container ? `, to ${receipt.container.name}, which is deleted` : ""}
      </span>
      <div className={classes.actions}>
        <Copy text={`${window.location.origin}${paths.request(request_id)}`} label="Copy link" withLabel />
        <Button
          component="a"
          variant="default"
          size="xs"
          href={`/api/v1/requests/${encodeURIComponent(request_id)}`}
          download={`${request_id}.json`}
          leftSection={<Download size={14} strokeWidth={1.5} />}
        >
          JSON
        </Button>
      </div>
    </header>
  );
}
