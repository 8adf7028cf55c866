import { Button } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { ArrowLeft, ChartLine } from "lucide-react";

import { paths } from "@/addresses/paths";
import { type Container, containerQuery } from "@/api/queries";
import { LinkTo } from "@/components/LinkTo";
import { lookOf, STATES } from "@/components/state";
import { StateBadge } from "@/components/StateBadge";
import { since } from "@/components/times";
import { useNow } from "@/components/useNow";
import { ContainerActions } from "@/containers/ContainerActions";
import { FailedVerdict } from "@/containers/FailedVerdict";
import { LastLines } from "@/containers/LastLines";
import { LatestActivity } from "@/containers/LatestActivity";
import { ReplicaTable } from "@/containers/ReplicaTable";
import { SettingsCard } from "@/containers/SettingsCard";

import classes from "./ContainerDetail.module.css";
import { Endpoint } from "./Endpoint";
import { ThenPlayground } from "./FirstAnswer";
import { LastHour } from "./LastHour";
import { priceInWords } from "./prices";
import { Progress } from "./Progress";
import { Trouble } from "./Trouble";

export function ContainerDetail() {
  const { containerId } = useParams({ strict: false }) as { containerId: string };
  const { data: container } = useSuspenseQuery(containerQuery(containerId));
  return (
    <div className={classes.detail}>
      <Head container={container} />
      {container.state === "FAILED" ? (
        <>
          <FailedVerdict container={container} />
          <LastLines container={container} />
        </>
      ) : null}
      <ThenPlayground container={container} />
      <Progress container={container} />
      <Trouble container={container} />
      {container.state === "FAILED" ? null : <Endpoint container={container} />}
      <LastHour container={container} />
      <div className={classes.columns}>
        <div className={classes.column}>
          {container.state === "FAILED" ? null : <ReplicaTable container={container} />}
          <LatestActivity container={container} />
        </div>
        <SettingsCard container={container} />
      </div>
    </div>
  );
}

function upFor(container: Container): string {
  const look = lookOf(container);
  return look === "RUNNING" ? "Up" : STATES[look].word;
}

function Head({ container }: { container: Container }) {
  const now = useNow(10_000);
  const { ready, desired } = container.replicas;
  const readiness = container.state === "STOPPED" || container.asleep ? null : `${ready}/${desired} ready`;
  return (
    <header className={classes.head}>
      <LinkTo to={paths.service(container.project_id)} className={classes.back}>
        <ArrowLeft size={16} strokeWidth={1.5} aria-hidden /> Containers
      </LinkTo>
      <div className={classes.title}>
        <h1>{container.name}</h1>
        <span role="status" aria-live="polite" className={classes.state}>
          <StateBadge state={lookOf(container)} />
          {readiness ? <span className={classes.ready}>{readiness}</span> : null}
        </span>
      </div>
      <p className={classes.meta}>
        {readiness ? <span className={classes.readyBelow}>{readiness}</span> : null}
        <span>
          {upFor(container)} for {since(container.asleep_since ?? container.state_since, now)}
        </span>
        <span className={classes.price}>{priceInWords(container)}</span>
        <code>{container.id}</code>
      </p>
      <div className={classes.actions}>
        <ContainerActions container={container} startsBelow={container.state === "FAILED"} />
        <Button
          component={LinkTo}
          to={paths.dashboard(container.project_id, container.id)}
          variant={container.state === "FAILED" ? "default" : "filled"}
          leftSection={<ChartLine size={16} strokeWidth={1.5} />}
        >
          Dashboard
        </Button>
      </div>
    </header>
  );
}
