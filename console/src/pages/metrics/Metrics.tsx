import { ActionIcon, Button, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { ChartLine, Download, Table2 } from "lucide-react";
import { useState } from "react";

import { handbook } from "@/addresses/handbook";
import { useContainer } from "@/addresses/useContainer";
import type { Container } from "@/api/queries";
import { Card, Page } from "@/components/Page";
import { Empty, ErrorNotice, Waiting } from "@/components/Patterns";
import { priceRange } from "@/components/PriceRange";
import { isDeploying, isStopped, STATES } from "@/components/state";
import { zone } from "@/components/times";
import type { Measured } from "@/containers/metrics/measured";
import { metricsQuery } from "@/containers/metrics/queries";
import { inWords, type Span } from "@/containers/metrics/range";
import { RangePicker } from "@/containers/metrics/RangePicker";
import { useSpan } from "@/containers/metrics/useSpan";
import { useContainerAction } from "@/containers/queries";
import { replicaRange } from "@/containers/resources";

import { Charts } from "./Charts";
import { csvOf } from "./csv";
import classes from "./Metrics.module.css";
import { Numbers } from "./Numbers";
import { Requests } from "./Requests";

const ICON = { size: 16, strokeWidth: 1.5 };

/** What a container did: its replicas and why, its requests, its machines. One crosshair goes through all of it. */
export function Metrics() {
  const container = useContainer();
  const [span, setSpan] = useSpan();
  const [asTable, setAsTable] = useState(false);
  const { data, error, refetch } = useQuery(metricsQuery(container, span));
  const hasData = data !== undefined && isAnything(data);
  return (
    <Page
      learn={handbook.metrics}
      title="Metrics"
      actions={
        <>
          <RangePicker span={span} change={setSpan} />
          <Tooltip label={asTable ? "Show as charts" : "Show as a table"}>
            <ActionIcon
              variant="default"
              size={32}
              aria-label="Show as a table"
              aria-pressed={asTable}
              disabled={!hasData}
              onClick={() => setAsTable(!asTable)}
            >
              {asTable ? <ChartLine {...ICON} /> : <Table2 {...ICON} />}
            </ActionIcon>
          </Tooltip>
          <Tooltip label="Download as CSV">
            <ActionIcon
              variant="default"
              size={32}
              aria-label="Download as CSV"
              disabled={!hasData}
              onClick={() => data && save(csvOf(data), `${container.name}-metrics.csv`)}
            >
              <Download {...ICON} />
            </ActionIcon>
          </Tooltip>
        </>
      }
    >
      {error && !data ? <ErrorNotice error={error} retry={refetch} /> : null}
      {!data && !error ? <Waiting rows={3} height={200} /> : null}
      {data && !hasData ? <NotRunning container={container} span={span} /> : null}
      {data && hasData && asTable ? <Numbers measured={data} span={span} /> : null}
      {data && hasData && !asTable ? <Charts container={container} measured={data} span={span} /> : null}
      {data && hasData ? <Requests container={container} span={span} /> : null}
      {data && hasData ? (
        <p className={classes.foot}>
          Times in {zone}. One point every {data.stepS < 120 ? `${data.stepS} s` : `${data.stepS / 60} min`}.
        </p>
      ) : null}
    </Page>
  );
}

function NotRunning({ container, span }: { container: Container; span: Span }) {
  const action = useContainerAction(container.id);
  const { min, max } = replicaRange(container);
  const canStart = isStopped(container.state);
  const start = (
    <Button loading={action.isPending} onClick={() => action.mutate("start")}>
      Start for {priceRange(container.price_per_hour_microusd, min, max)}/h
    </Button>
  );
  return (
    <Card label="Metrics" flush>
      <Empty action={canStart ? start : undefined} command={canStart ? `moor start ${container.name}` : undefined}>
        {isDeploying(container.state) && span.until === null
          ? `It is ${STATES[container.state].word.toLowerCase()}. Its figures begin when it is ready.`
          : `${container.name} was not running ${inWords(span)}. Its figures appear about half a minute after a request.`}
      </Empty>
    </Card>
  );
}

/** A replica was there, or a request was. */
function isAnything({ series }: Measured): boolean {
  return ["replica_count", "request_rate"].some((name) => series[name]?.some((value) => value !== null && value > 0));
}

function save(text: string, name: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  URL.revokeObjectURL(address);
}
