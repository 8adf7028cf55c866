import { useQuery } from "@tanstack/react-query";
import { ArrowLeft } from "lucide-react";

import { paths } from "@/addresses/paths";
import { billingQuery, type Organization } from "@/api/queries";
import { LinkTo } from "@/components/LinkTo";
import { ProjectForm } from "@/frame/CreateProject";
import { Logo } from "@/frame/Logo";

import classes from "./Welcome.module.css";

const STEPS = [
  ["Name a project", "Containers, keys and logs belong to it."],
  ["Deploy the example", "A small chat server that needs no GPU and no registry."],
  ["Call its endpoint", "With any OpenAI client, or here in the playground."],
] as const;

interface WelcomeProps {
  organization: Organization;
  /** Whether there are other organizations to go back to. */
  hasOthers?: boolean;
}

/** The first page of a new account or organization; it leads to the first deployment. */
export function Welcome({ organization, hasOthers = false }: WelcomeProps) {
  return (
    <main className={classes.page}>
      <Logo size={32} />
      <h1 className={classes.title}>{hasOthers ? organization.name : "Welcome to Moorage"}</h1>
      {organization.role === "admin" ? (
        <>
          <ol className={classes.steps}>
            {STEPS.map(([title, text], index) => (
              <li key={title} data-current={index === 0 || undefined}>
                <span className={classes.number}>{index + 1}</span>
                <div>
                  <strong>{title}</strong>
                  <p>{text}</p>
                </div>
              </li>
            ))}
          </ol>
          <NoCredit organizationId={organization.id} />
          <ProjectForm organizationId={organization.id} organizationName={organization.name} />
        </>
      ) : (
        <p className={classes.text}>
          You have not joined a project yet. Ask an admin of {organization.name} to add you to one, then reload this page.
        </p>
      )}
      {hasOthers ? (
        <LinkTo to={paths.home()} className={classes.back}>
          <ArrowLeft size={16} strokeWidth={1.5} aria-hidden /> Back to your other projects
        </LinkTo>
      ) : null}
    </main>
  );
}

/** One that was not made at sign-up begins with nothing, and then no project can be made in it. */
function NoCredit({ organizationId }: { organizationId: string }) {
  const { data: billing } = useQuery(billingQuery(organizationId));
  if (!billing || billing.balance_microusd > 0) return null;
  return (
    <p className={classes.noCredit}>
      There is no credit yet, and a project needs some. <LinkTo to={paths.organizationBilling(organizationId)}>Top up</LinkTo>
    </p>
  );
}
