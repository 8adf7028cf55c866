import { useQuery } from "@tanstack/react-query";
import { Check, Lock, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";

import { projectQuery } from "@/api/queries";
import { Copy } from "@/components/Copy";
import { LinkTo } from "@/components/LinkTo";
import { dollars } from "@/components/Money";
import { Card, Facts } from "@/components/Page";
import type { Receipt } from "@/containers/requests/queries";
import { askedFor, endingOf, isFailed, isGatewaysAnswer } from "@/containers/requests/words";
import { gpuName } from "@/containers/resources";
import { paths } from "@/addresses/paths";

import { placeOf } from "./place";
import classes from "./Request.module.css";

/** What can be told from nothing with four digits. */
const LEAST_MICROUSD = 100;

export function ReceiptFacts({ receipt }: { receipt: Receipt }) {
  return (
    <>
      <Card title="Receipt">
        <Facts items={factsOf(receipt)} />
      </Card>
      {receipt.cost ? (
        <Card title="What it cost">
          <Cost cost={receipt.cost} />
        </Card>
      ) : null}
      <Kept receipt={receipt} />
    </>
  );
}

function factsOf(receipt: Receipt): [string, ReactNode][] {
  const { key, replica, retries } = receipt;
  const failed = isFailed(receipt);
  const asked = askedFor(receipt);
  const status = (
    <span className={classes.status} data-tone={failed ? "bad" : "ok"}>
      {failed ? <TriangleAlert size={14} strokeWidth={1.5} aria-hidden /> : <Check size={14} strokeWidth={2} aria-hidden />}
      {receipt.status ?? "no answer"}
    </span>
  );
  const facts: [string, ReactNode][] = [
    ["Status", status],
    ["Request", <Two key="asked" first={asked ? <code>{asked}</code> : "path not kept"} then={endingOf(receipt)} />],
    [
      "Key",
      <Two
        key="key"
        first={key.name ? <LinkTo to={paths.section(receipt.project_id, "api-keys")}>{key.name}</LinkTo> : <code>{key.id}</code>}
        then={key.hint ? `moor_…${key.hint}, for ${key.scope === "manage" ? "managing too" : "inference only"}` : "no longer there"}
      />,
    ],
  ];
  if (replica) {
    facts.push(["Replica", <Two key="replica" first={<code>{replica.id}</code>} then={<Version receipt={receipt} />} />]);
    if (replica.node) {
      facts.push(["Machine", [replica.node, replica.gpu_model ? gpuName(replica.gpu_model) : null].filter(Boolean).join(", ")]);
    }
  } else {
    facts.push(["Replica", "none was reached"]);
  }
  if (receipt.first_byte_ms !== null) facts.push(["First byte", `after ${(receipt.first_byte_ms / 1000).toFixed(2)} s`]);
  facts.push(
    ["Tokens", <Two key="tokens" first="not counted" then="Moorage does not read answers" />],
    [
      "Size",
      <Two
        key="size"
        first={`${exactly(receipt.request_bytes)} in, ${exactly(receipt.response_bytes)} out`}
        then={sizeNote(receipt)}
      />,
    ],
  );
  if (retries !== null) facts.push(["Retries", retries === 0 ? "none" : `sent again ${retries === 1 ? "once" : `${retries} times`}`]);
  facts.push(
    ["Gateway", <Two key="gateway" first={<code>{receipt.gateway_id}</code>} then="its clock for the request's times" />],
  );
  return facts;
}

function sizeNote(receipt: Receipt): string | null {
  if (isGatewaysAnswer(receipt)) return "the gateway's answer, none of the container";
  const comments = receipt.held_comments;
  return comments ? `${comments} ${comments === 1 ? "comment" : "comments"} kept the stream open` : null;
}

function Version({ receipt }: { receipt: Receipt }) {
  const version = receipt.replica?.version;
  const containerId = placeOf(receipt);
  if (!version) return "no longer known";
  if (!containerId) return `version ${version}`;
  return <LinkTo to={paths.dashboard(receipt.project_id, containerId, "versions")}>version {version}</LinkTo>;
}

function Two({ first, then }: { first: ReactNode; then: ReactNode }) {
  return (
    <span className={classes.two}>
      {first}
      {then ? <small>{then}</small> : null}
    </span>
  );
}

function Cost({ cost }: { cost: NonNullable<Receipt["cost"]> }) {
  const hour = cost.bought_by_wake ? "Hour bought by this wake" : cost.replicas === 1 ? "Hour it fell into" : `Hours of ${cost.replicas} replicas`;
  const isOver = Date.parse(cost.expires_at) <= Date.now();
  return (
    <>
      <Facts
        items={[
          [hour, dollars(cost.price_microusd)],
          [isOver ? "Requests in that hour" : "Requests in that hour so far", cost.requests.toLocaleString("en-US")],
        ]}
      />
      <hr className={classes.rule} />
      <Facts items={[["Share of this request", <b key="share">{cost.share_microusd < LEAST_MICROUSD ? `under ${dollars(LEAST_MICROUSD)}` : dollars(cost.share_microusd)}</b>]]} />
    </>
  );
}

function Kept({ receipt }: { receipt: Receipt }) {
  const project = useQuery(projectQuery(receipt.project_id)).data;
  const command = `moor explain ${receipt.request_id}`;
  return (
    <section className={classes.kept} aria-label="What is kept">
      <Lock size={16} strokeWidth={1.5} aria-hidden />
      <div>
        <p>
          Prompt and answer are not kept. This receipt is kept for {receipt.kept_days} days; members of {project?.name ?? "its project"} can
          see it.
        </p>
        <div className={classes.command}>
          <code>{command}</code>
          <Copy text={command} label="Copy command" />
        </div>
      </div>
    </section>
  );
}

/** "1.3 kB"; bytes below a kilobyte. */
function exactly(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  if (bytes < 1e6) return `${(bytes / 1e3).toFixed(1)} kB`;
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
