import { Button } from "@mantine/core";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { ChartColumn, HandCoins, Landmark, OctagonX } from "lucide-react";

import { handbook } from "@/addresses/handbook";
import { paths } from "@/addresses/paths";
import { LinkTo } from "@/components/LinkTo";
import { dollars } from "@/components/Money";
import { Page } from "@/components/Page";
import { zone } from "@/components/times";

import classes from "./Home.module.css";
import { HealthCard, LatestCard, OccupancyCard, RevenueCard } from "./HomeCards";
import { healthQuery, limitRequestsQuery, payoutsQuery, setupQuery, transfersQuery } from "./queries";
import { SetupCard } from "./SetupCard";

const ICON = { size: 16, strokeWidth: 1.5 };

/** What is missing, what waits for the operator, and how everything is, on one page. */
export function Home() {
  const { data: setup } = useSuspenseQuery(setupQuery);
  return (
    <Page
      title="Home"
      hint={`Times in ${zone}.`}
      learn={handbook.install}
      actions={
        <>
          <Failing />
          <Waiting />
        </>
      }
    >
      <div className={classes.columns}>
        <div className={classes.column}>
          <SetupCard steps={setup.steps} />
          <OccupancyCard />
        </div>
        <div className={classes.column}>
          <HealthCard />
          <RevenueCard />
          <LatestCard />
        </div>
      </div>
    </Page>
  );
}

/** What does not work is worth more than anything below it. */
function Failing() {
  const failing = (useQuery(healthQuery).data?.parts ?? []).filter((one) => one.state === "failing").length;
  if (failing === 0) return null;
  return (
    <Button component={LinkTo} to={paths.operator("health")} variant="default" leftSection={<OctagonX {...ICON} color="var(--m-bad)" />}>
      <span className={classes.failing}>{failing === 1 ? "1 part fails" : `${failing} parts fail`}</span>
    </Button>
  );
}

/** Decisions that only the operator can take; nothing where nobody waits for one. */
function Waiting() {
  const transfers = useQuery(transfersQuery("pending")).data ?? [];
  const requests = useQuery(limitRequestsQuery("pending")).data ?? [];
  const payouts = useQuery(payoutsQuery("requested")).data ?? [];
  const sum = (items: { amount_microusd: number }[]) => dollars(items.reduce((total, one) => total + one.amount_microusd, 0));
  const waiting = [
    { page: "transfers", icon: Landmark, items: transfers, noun: "bank transfer", detail: sum(transfers) },
    { page: "payouts", icon: HandCoins, items: payouts, noun: "payout", detail: sum(payouts) },
    { page: "requests", icon: ChartColumn, items: requests, noun: "replica limit", detail: `${Math.max(0, ...requests.map((one) => one.replicas))} wanted` },
  ] as const;
  const shown = waiting.filter((one) => one.items.length > 0);
  if (shown.length === 0) return <span className={classes.quiet}>Nothing waits for you.</span>;
  return (
    <>
      <span className={classes.quiet}>Waits for you:</span>
      {shown.map(({ page, icon: Icon, items, noun, detail }) => (
        <Button key={page} component={LinkTo} to={paths.operator(page)} variant="default" leftSection={<Icon {...ICON} />}>
          <span className={classes.waiting}>
            <b>{`${items.length} ${noun}${items.length === 1 ? "" : "s"}`}</b> {detail}
          </span>
        </Button>
      ))}
    </>
  );
}
