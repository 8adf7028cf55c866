import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { TriangleAlert } from "lucide-react";

import { LinkTo } from "@/components/LinkTo";
import { dollars } from "@/components/Money";
import { StateIcon } from "@/components/StateIcon";
import { Table } from "@/components/Table";
import { duration } from "@/components/times";
import type { Receipt } from "@/containers/requests/queries";
import { endingOf, isFailed, isGatewaysAnswer, took } from "@/containers/requests/words";
import { savingsQuery } from "@/containers/Sleep";
import { paths } from "@/addresses/paths";

import { PhaseBar } from "./PhaseBar";
import { lookOf, type Phase, sum } from "./phases";
import { placeOf } from "./place";
import classes from "./Request.module.css";

/** Where its time went: the sentence first, then to scale, then in numbers. */
export function Where({ receipt }: { receipt: Receipt }) {
  return (
    <section className={classes.card} aria-label="Where its time went">
      <Sentence receipt={receipt} />
      <PhaseBar phases={receipt.phases} />
      <Phases phases={receipt.phases} />
    </section>
  );
}

function Sentence({ receipt }: { receipt: Receipt }) {
  const woken = receipt.held_ms !== null;
  const failed = isFailed(receipt);
  const containerId = placeOf(receipt);
  return (
    <header className={classes.sentence} data-tone={failed ? "bad" : woken ? "accent" : undefined}>
      {failed ? <TriangleAlert size={18} strokeWidth={1.5} aria-hidden /> : woken ? <StateIcon state="ASLEEP" size={18} /> : null}
      <div>
        <h2>{titleOf(receipt)}</h2>
        <p>{failed ? receipt.explanation.slice(1, -1).filter(isSentence).join(" ") : <Rest receipt={receipt} />}</p>
      </div>
      {woken && containerId ? (
        <Button component={LinkTo} variant="default" to={paths.dashboard(receipt.project_id, containerId, "settings")}>
          Change sleep
        </Button>
      ) : null}
      {failed && containerId && receipt.lines ? (
        <Button
          component={LinkTo}
          variant="default"
          to={paths.logsAround(receipt.project_id, containerId, { instance: receipt.lines.instance_id, until: receipt.lines.to_time })}
        >
          Open its logs
        </Button>
      ) : null}
    </header>
  );
}

/** What is indented are the phases again. */
const isSentence = (line: string) => !line.startsWith(" ");

function titleOf(receipt: Receipt): string {
  const { status, total_ms, held_ms, wake, phases } = receipt;
  if (isFailed(receipt)) {
    if (status === null) return `Not answered; ended after ${took(total_ms)}`;
    if (isGatewaysAnswer(receipt)) {
      const why = receipt.ended === "refused" ? "" : `: ${endingOf(receipt)}`;
      return `The gateway answered ${status} after ${took(total_ms)}${why}`;
    }
    return `Answered with ${status} after ${took(total_ms)}`;
  }
  if (held_ms !== null) {
    const slept = wake?.woken_at ? `, asleep for ${duration(Date.parse(wake.woken_at) - Date.parse(wake.asleep_at))}` : "";
    return `Took ${took(total_ms)}: ${took(held_ms)} of it woke the container${slept}`;
  }
  const longest = phases.reduce<Phase | null>((most, one) => (most && most.duration_ms >= one.duration_ms ? most : one), null);
  if (!longest || total_ms === 0) return `Took ${took(total_ms)}`;
  return `Took ${took(total_ms)}: ${took(longest.duration_ms)} of it ${WHAT_IT_DID[longest.name] ?? "in the gateway"}`;
}

const WHAT_IT_DID: Record<string, string> = {
  queued: "waited for a free replica",
  connected: "to reach the replica",
  to_first_byte: "until the first byte",
  answering: "sending the answer",
};

function Rest({ receipt }: { receipt: Receipt }) {
  const { held_ms, total_ms, container } = receipt;
  const containerId = placeOf(receipt);
  const savings = useQuery({ ...savingsQuery(container?.id ?? ""), enabled: held_ms !== null && containerId !== null }).data;
  if (held_ms === null) {
    return receipt.queue_ms ? "A replica that was busy kept it waiting." : "The container was awake, and a replica was free.";
  }
  const saved = savings?.since_midnight_microusd
    ? ` Sleeping has saved ${dollars(savings.since_midnight_microusd)} since midnight UTC.`
    : "";
  return `Without the wake it would have taken about ${took(total_ms - held_ms)}.${saved}`;
}

function Phases({ phases }: { phases: Phase[] }) {
  const total = Math.max(sum(phases), 1);
  const short = total < 1_000;
  return (
    <Table
      rows={phases}
      rowKey={(row) => row.name}
      empty="Nothing is known of its phases."
      columns={[
        {
          head: "Phase",
          cell: (row) => {
            const { word, part, color } = lookOf(row);
            return (
              <span className={classes.phase} data-phase={color}>
                <b>{word}</b>
                {part ? <small>{part}</small> : null}
              </span>
            );
          },
        },
        short
          ? { head: "Time, ms", right: true, cell: (row) => <b>{row.duration_ms}</b> }
          : { head: "Time, s", right: true, cell: (row) => <b>{(row.duration_ms / 1000).toFixed(2)}</b> },
        { head: "Share, %", right: true, cell: (row) => <span className={classes.quiet}>{share(row.duration_ms / total)}</span> },
        { head: "What happened", wide: true, cell: (row) => <span className={classes.what}>{row.what}</span> },
      ]}
    />
  );
}

/** What took some time took no 0 %. */
function share(part: number): string {
  const percent = Math.round(part * 100);
  return percent === 0 && part > 0 ? "<1" : String(percent);
}
