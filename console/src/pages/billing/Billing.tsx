import { useSuspenseQuery } from "@tanstack/react-query";
import { useState } from "react";

import { handbook } from "@/addresses/handbook";
import { useProject } from "@/addresses/useProject";
import { billingQuery } from "@/api/queries";
import { lastDays } from "@/components/days";
import { LastDays, USUAL_DAYS } from "@/components/LastDays";
import { Page } from "@/components/Page";
import { zone } from "@/components/times";

import { AutoTopUp } from "./AutoTopUp";
import { AwaitedPayments } from "./AwaitedPayments";
import { Balance } from "./Balance";
import classes from "./Billing.module.css";
import { Credit } from "./Credit";
import { Documents } from "./Documents";
import { Entries } from "./Entries";
import { Limits } from "./Limits";
import { Paid } from "./Paid";
import { TopUpCard } from "./TopUpCard";
import { Usage } from "./Usage";

/** An organization's money: what is there, how long it lasts, where it went, and how more comes in. */
export function Billing() {
  const { project, organization, isAdmin } = useProject();
  const { data: billing } = useSuspenseQuery(billingQuery(project.organization_id));
  const [days, setDays] = useState(USUAL_DAYS);
  const dates = lastDays(days);
  const hint = isAdmin ? `${organization?.name ?? ""}, all projects. Times in ${zone}.` : `${organization?.name ?? ""}, your projects.`;
  return (
    <Page title="Billing" learn={handbook.howHoursAreBilled} hint={hint} actions={<LastDays days={days} change={setDays} />}>
      {isAdmin ? <Paid organizationId={project.organization_id} /> : null}
      <div className={isAdmin ? classes.columns : classes.column}>
        <Credit billing={billing} />
        {isAdmin ? (
          <div className={classes.side}>
            <TopUpCard organizationId={project.organization_id} billing={billing} />
            <AwaitedPayments organizationId={project.organization_id} />
            <AutoTopUp organizationId={project.organization_id} billing={billing} />
            <Limits organizationId={project.organization_id} />
          </div>
        ) : null}
        <div className={classes.column}>
          {isAdmin ? <Balance organizationId={project.organization_id} dates={dates} /> : null}
          <Usage organizationId={project.organization_id} dates={dates} />
          {isAdmin ? <Entries organizationId={project.organization_id} /> : null}
          {isAdmin ? <Documents organizationId={project.organization_id} /> : null}
        </div>
      </div>
    </Page>
  );
}
