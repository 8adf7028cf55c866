import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { paths } from "@/addresses/paths";
import { type Container, instanceTypesQuery } from "@/api/queries";
import { AnsiText } from "@/components/AnsiText";
import { Copy } from "@/components/Copy";
import { LinkTo } from "@/components/LinkTo";
import { Card, Facts } from "@/components/Page";
import { clockTime, duration } from "@/components/times";
import { Verdict } from "@/components/Verdict";
import { fixInWords } from "@/containers/fixWords";
import { useFix } from "@/containers/queries";
import { gpuName, shortDigest } from "@/containers/resources";

import classes from "./Capsules.module.css";
import { Probes } from "./Probes";
import type { Capsule } from "./queries";
import { reasonInWords } from "./words";

interface CapsuleDetailProps {
  container: Container;
  capsule: Capsule;
  isNewest: boolean;
}

export function CapsuleDetail({ container, capsule, isNewest }: CapsuleDetailProps) {
  const fix = useFix(container);
  const types = useQuery(instanceTypesQuery).data ?? [];
  // The fix is of the failure that the container is in now; an older crash may have had another.
  const offered = isNewest && container.state === "FAILED" && container.reason === capsule.reason ? container.fix : null;
  return (
    <div className={classes.detail}>
      <Verdict
        message={capsule.message ?? reasonInWords(capsule)}
        reason={capsule.reason}
        label="Why it ended"
        fix={offered}
        change={offered ? fixInWords(offered, types) : undefined}
        actions={
          offered ? (
            <Button loading={fix.isPending} onClick={() => fix.mutate()}>
              Apply and start
            </Button>
          ) : (
            <Button
              component={LinkTo}
              variant="default"
              to={paths.dashboard(container.project_id, container.id, "settings")}
            >
              Open settings
            </Button>
          )
        }
      />
      <div className={classes.facts}>
        <Card title="Replica" action={<Copy text={capsule.replica_id} label="Copy replica id" />}>
          <Facts items={factsOf(capsule)} />
        </Card>
        <Probes capsule={capsule} />
      </div>
      <Lines container={container} capsule={capsule} />
    </div>
  );
}

function factsOf(capsule: Capsule): [string, ReactNode][] {
  const { created_at, started_at, ready_at, ended_at } = capsule;
  const between = (from: string | null, to: string | null) =>
    from && to ? duration(Date.parse(to) - Date.parse(from)) : null;
  const facts: [string, ReactNode][] = [
    ["Instance", <code key="id">{capsule.replica_id}</code>],
    ["Exit code", capsule.exit_code ?? "None: Moorage stopped it"],
    ["Ran for", between(started_at, ended_at) ?? "Never started"],
    ["Ready", ready_at ? `After ${between(created_at, ready_at)}` : "Never"],
    ["Settings", `generation ${capsule.generation}, slot ${capsule.slot}`],
    ["Image", <code key="image">{capsule.image}</code>],
    ["Node", capsule.node],
  ];
  if (capsule.image_digest) facts.splice(6, 0, ["Digest", <code key="digest">{shortDigest(capsule.image_digest)}</code>]);
  for (const gpu of capsule.gpus) {
    const memory = gpu["memory_bytes"] ? ` · ${Math.round(Number(gpu["memory_bytes"]) / 2 ** 30)} GiB` : "";
    facts.push(["GPU", `${gpuName(String(gpu["model"]))}${memory}`]);
  }
  if (capsule.gpus.length === 0) facts.push(["GPU", "None"]);
  return facts;
}

function Lines({ container, capsule }: { container: Container; capsule: Capsule }) {
  const lines = capsule.last_lines;
  const all = <LinkTo to={paths.dashboard(container.project_id, container.id, "logs")}>All logs</LinkTo>;
  return (
    <Card title="Last lines" hint={lines.length === 1 ? "1 line" : `${lines.length} lines, secrets masked`} action={all} flush>
      {lines.length === 0 ? (
        <p className={classes.none}>It printed nothing.</p>
      ) : (
        <div className={`${classes.lines} mono`} tabIndex={0} role="region" aria-label="Last lines">
          {lines.map((line, index) => (
            <div key={index} className={classes.line} data-stream={line.stream}>
              <time dateTime={line.time}>{clockTime(line.time, true)}</time>
              {line.stream === "moorage" ? <b>Moorage: </b> : null}
              <AnsiText text={line.text} />
            </div>
          ))}
        </div>
      )}
    </Card>
  );
}
