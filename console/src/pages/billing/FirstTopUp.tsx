import { useSuspenseQuery } from "@tanstack/react-query";
import { notFound, useParams } from "@tanstack/react-router";

import { billingQuery, organizationsQuery } from "@/api/queries";
import { Page } from "@/components/Page";

import { AwaitedPayments } from "./AwaitedPayments";
import classes from "./Billing.module.css";
import { Credit } from "./Credit";
import { TopUpCard } from "./TopUpCard";

/** An organization's money before it has a project, which takes credit. With one, it is among the project's pages. */
export function FirstTopUp() {
  const { organizationId } = useParams({ strict: false }) as { organizationId: string };
  const { data: organizations } = useSuspenseQuery(organizationsQuery);
  const organization = organizations.find((one) => one.id === organizationId);
  if (organization?.role !== "admin") throw notFound();
  const { data: billing } = useSuspenseQuery(billingQuery(organizationId));
  return (
    <Page title="Billing" hint={`${organization.name}. Once there is credit, create its first project.`}>
      <div className={classes.columns}>
        <Credit billing={billing} />
        <div className={classes.side}>
          <TopUpCard organizationId={organizationId} billing={billing} />
          <AwaitedPayments organizationId={organizationId} />
        </div>
      </div>
    </Page>
  );
}
