import { Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { ArrowRight, Plus, Zap } from "lucide-react";

import { paths } from "@/addresses/paths";
import { api, body } from "@/api/client";
import { type InstanceType, instanceTypesQuery, type Template, templatesQuery } from "@/api/queries";
import { LinkTo } from "@/components/LinkTo";
import { dollars } from "@/components/Money";
import { failed } from "@/components/toasts";
import { EMPTY, EXAMPLE, toCreate } from "@/containers/form/draft";
import { oneOfEachKind } from "@/containers/templates";

import classes from "./Service.module.css";

/** While it is under way the list may have the container already: nobody else leads away from here then. */
export const DEPLOYS_EXAMPLE = ["deploy the example"];

/** An empty project: the example in one click, and beside it what else one can begin with. */
export function FirstRun({ projectId }: { projectId: string }) {
  const types = useQuery(instanceTypesQuery).data;
  const type = types ? cheapest(types) : undefined;
  const deploy = useExample(projectId);
  return (
    <section className={classes.begin} aria-label="First container">
      <h2>Run your first container</h2>
      <p>
        The example is a small chat server that needs no GPU and no registry. It runs in a minute; then the playground
        opens and you ask it something.
      </p>
      <div className={classes.beginActions}>
        <Button
          leftSection={<Zap size={16} strokeWidth={1.5} />}
          disabled={!type}
          loading={deploy.isPending}
          onClick={() => type && deploy.mutate(type.name)}
        >
          Deploy the example{type ? ` for ${dollars(type.price_per_hour_microusd)}/h` : ""}
        </Button>
        <Button component={LinkTo} to={paths.create(projectId)} variant="default" leftSection={<Plus size={16} strokeWidth={1.5} />}>
          Create a container
        </Button>
      </div>
      <p className={classes.beginHint}>
        {types && !type
          ? "No instance type is free for the example now. Its price appears here as soon as one is."
          : "Charged when it is ready, released if that never happens. Stop it at any time."}
      </p>
      <Beginnings projectId={projectId} />
    </section>
  );
}

function Beginnings({ projectId }: { projectId: string }) {
  const templates = useQuery(templatesQuery).data ?? [];
  if (templates.length === 0) return null;
  return (
    <div className={classes.beginnings}>
      <nav aria-label="Start from a model">
        <h3>Start from a model</h3>
        <ul>
          {oneOfEachKind(templates).map(({ name, example, summary }) => (
            <li key={name}>
              <LinkTo to={paths.create(projectId, { model: example })} className={classes.beginning}>
                <code>{example.replace(/^hf:/, "")}</code>
                <small>{summary}</small>
                <ArrowRight size={14} strokeWidth={1.5} aria-hidden />
              </LinkTo>
            </li>
          ))}
        </ul>
      </nav>
      <nav aria-label="Start from a template">
        <h3>Start from a template</h3>
        <ul>
          {templates.map((one) => (
            <li key={one.name}>
              <LinkTo to={paths.create(projectId, { template: one.name, model: one.example })} className={classes.beginning}>
                <strong>{one.title}</strong>
                <small>{priceOf(one)}</small>
                <ArrowRight size={14} strokeWidth={1.5} aria-hidden />
              </LinkTo>
            </li>
          ))}
        </ul>
      </nav>
    </div>
  );
}

function priceOf({ instance_type: type, price_per_hour_microusd: price }: Template): string {
  return type === null || price === null ? "fits no type here" : `from ${dollars(price)}/h on ${type}`;
}

function cheapest(types: InstanceType[]): InstanceType | undefined {
  return types
    .filter((one) => one.available && one.infrastructure === "operator")
    .toSorted((one, other) => one.price_per_hour_microusd - other.price_per_hour_microusd)[0];
}

function useExample(projectId: string) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  return useMutation({
    mutationKey: DEPLOYS_EXAMPLE,
    mutationFn: (instanceType: string) =>
      body(
        api.POST("/api/v1/projects/{project_id}/containers", {
          params: { path: { project_id: projectId } },
          body: toCreate({ ...EMPTY, ...EXAMPLE, instanceType }),
        }),
      ),
    onSuccess: async (container) => {
      queries.setQueryData(["containers", container.id], container);
      await navigate({ to: paths.tried(projectId, container.id) });
      await queries.invalidateQueries({ queryKey: ["containers"] });
    },
    onError: failed,
  });
}
