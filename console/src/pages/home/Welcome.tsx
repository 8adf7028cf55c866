import type { Organization } from "@/api/queries";
import { ProjectForm } from "@/frame/CreateProject";
import { Logo } from "@/frame/Logo";

import classes from "./Welcome.module.css";

const STEPS = [
  ["Name a project", "Containers, keys and logs belong to it."],
  ["Deploy the example", "A small chat server that needs no GPU and no registry."],
  ["Call its endpoint", "With any OpenAI client, or here in the playground."],
] as const;

/** The first page of a new account; it leads to the first deployment. */
export function Welcome({ organization }: { organization: Organization | undefined }) {
  return (
    <main className={classes.page}>
      <Logo size={32} />
      <h1 className={classes.title}>Welcome to Moorage</h1>
      {organization ? (
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
          <ProjectForm organizationId={organization.id} />
        </>
      ) : (
        <p className={classes.text}>
          You have not joined a project yet. Ask an admin of your organization to add you to one, then reload this page.
        </p>
      )}
    </main>
  );
}
