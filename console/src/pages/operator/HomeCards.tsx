import { useQuery } from "@tanstack/react-query";

import { paths } from "@/addresses/paths";
import { DayBars } from "@/components/DayBars";
import { byDay } from "@/components/days";
import { Figures } from "@/components/Figures";
import { LinkTo } from "@/components/LinkTo";
import { Money } from "@/components/Money";
import { Card } from "@/components/Page";
import { ErrorNotice, Waiting } from "@/components/Patterns";
import { Sentence } from "@/components/Sentence";
import { Table } from "@/components/Table";
import { shortTime } from "@/components/times";
import { useNow } from "@/components/useNow";
import type { Condition } from "@/machines/condition";
import { MachineCondition } from "@/machines/MachineCondition";

import { causesOf, working } from "./causes";
import { HealthIcon } from "./HealthIcon";
import classes from "./Home.module.css";
import { gpusInUse, type MachineGpus, machineGpus, monthSoFar } from "./home";
import { conditionOf, isSilent, listed, replicasOf, troubleFirst } from "./machineList";
import { healthQuery, latestChangesQuery, machinesQuery, nodesQuery, revenueQuery } from "./queries";

const MOST_CAUSES = 6;
const MOST_MACHINES = 10;
const MOST_CHANGES = 7;
const MOST_PIPS = 16;

export function HealthCard() {
  const { data, error, refetch } = useQuery(healthQuery);
  const causes = data ? causesOf(data.parts) : [];
  const notShown = causes.slice(MOST_CAUSES).reduce((sum, one) => sum + one.members.length, 0);
  return (
    <Card
      title="Health"
      hint={data ? <span className={classes.verdict} data-state={data.state}>{working(data.parts)}</span> : undefined}
      action={<LinkTo to={paths.operator("health")}>All parts</LinkTo>}
    >
      {error && !data ? <ErrorNotice error={error} retry={refetch} /> : null}
      {!data && !error ? <Waiting rows={2} height={24} /> : null}
      {data ? (
        <ul className={classes.parts}>
          {causes.slice(0, MOST_CAUSES).map((cause) => (
            <li key={cause.key} data-state={cause.state}>
              <HealthIcon state={cause.state} />
              <strong>{cause.title}</strong>
              <span>
                <Sentence text={cause.message} />
              </span>
            </li>
          ))}
          {notShown > 0 ? (
            <li>
              <LinkTo to={paths.operator("health")}>{`and ${notShown} more`}</LinkTo>
            </li>
          ) : null}
        </ul>
      ) : null}
    </Card>
  );
}

export function OccupancyCard() {
  const { data: nodes, error, refetch } = useQuery(nodesQuery);
  const { data: machines } = useQuery(machinesQuery);
  const now = useNow(30_000);
  if (error && !nodes) return <ErrorNotice error={error} retry={refetch} />;
  if (!nodes || !machines) return <Waiting rows={3} height={36} />;
  const all = troubleFirst(listed(nodes, machines), now);
  const { used, total } = gpusInUse(nodes);
  return (
    <Card
      flush
      title="Machines and GPUs"
      hint={total > 0 ? `${used} of ${total} GPUs in use, ${Math.round((used / total) * 100)} %` : "No machine has a GPU."}
      action={<LinkTo to={paths.operator("machines")}>{`All ${all.length}`}</LinkTo>}
    >
      <Table
        rows={all.slice(0, MOST_MACHINES)}
        rowKey={(row) => row.key}
        empty="No machine has reported yet."
        columns={[
          { head: "Machine", cell: (row) => <LinkTo className={classes.machine} to={paths.operator("machines")}>{row.name}</LinkTo> },
          {
            head: "State",
            cell: (row) => (
              <div className={classes.state}>
                <MachineCondition condition={worded(conditionOf(row, now))} now={now} />
              </div>
            ),
          },
          { head: "GPU", wide: true, cell: (row) => machineGpus(row.node).model },
          { head: "Occupancy", wide: true, cell: (row) => (isSilent(row) ? null : <Pips gpus={machineGpus(row.node)} />) },
          {
            head: "In use",
            right: true,
            cell: (row) => (row.node && row.node.gpus.length > 0 && !isSilent(row) ? `${machineGpus(row.node).used} of ${row.node.gpus.length}` : "–"),
          },
          { head: "Replicas", right: true, cell: replicasOf },
        ]}
      />
    </Card>
  );
}

/** That it takes containers is what its word says already. */
function worded(condition: Condition): Condition {
  return condition.look === "active" ? { ...condition, sentence: "" } : condition;
}

function Pips({ gpus }: { gpus: MachineGpus }) {
  return (
    <span className={classes.pips} aria-hidden>
      {Array.from({ length: Math.min(gpus.total, MOST_PIPS) }, (_, index) => (
        <i key={index} data-used={index < gpus.used || undefined} />
      ))}
    </span>
  );
}

export function RevenueCard() {
  const now = useNow(60_000);
  const { dates, first, last, name } = monthSoFar(now);
  const { data, error, refetch } = useQuery(revenueQuery(first, last));
  const items = data?.items ?? [];
  return (
    <Card title={`Revenue in ${name}`} hint="Days in UTC" action={<LinkTo to={paths.operator("revenue")}>By day</LinkTo>}>
      {error && !data ? <ErrorNotice error={error} retry={refetch} /> : null}
      {!data && !error ? <Waiting rows={3} height={48} /> : null}
      {data ? (
        <>
          <Figures
            figures={[
              { name: "Usage", value: <Money microusd={items.reduce((sum, day) => sum + day.usage_microusd, 0)} /> },
              {
                name: "Paid in",
                value: <Money microusd={items.reduce((sum, day) => sum + day.card_microusd + day.bank_transfer_microusd, 0)} />,
              },
            ]}
          />
          <div className={classes.chart}>
            <DayBars
              label={`Usage by day in ${name}`}
              dates={dates}
              parts={[{ label: "Usage", color: "series-1", values: byDay(dates, items.map(({ day, usage_microusd: microusd }) => ({ day, microusd }))) }]}
            />
          </div>
        </>
      ) : null}
    </Card>
  );
}

export function LatestCard() {
  const { data, error, refetch } = useQuery(latestChangesQuery(MOST_CHANGES));
  const now = useNow(60_000);
  return (
    <Card flush title="Latest changes" action={<LinkTo to={paths.operator("audit")}>All</LinkTo>}>
      {error && !data ? <ErrorNotice error={error} retry={refetch} /> : null}
      {!data && !error ? <Waiting rows={3} height={24} /> : null}
      {data?.length === 0 ? <p className={classes.empty}>No changes yet. Changes to prices, machines and gateways appear here.</p> : null}
      {data && data.length > 0 ? (
        <ul className={classes.latest}>
          {data.map((one) => (
            <li key={one.id}>
              <time dateTime={one.at}>{shortTime(one.at, now)}</time>
              <code>{one.action}</code>
              <span>{`${one.target}, by ${one.actor_email ?? one.actor}`}</span>
            </li>
          ))}
        </ul>
      ) : null}
    </Card>
  );
}
