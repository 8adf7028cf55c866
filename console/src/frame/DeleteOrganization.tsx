import { Button, Group, Modal, Stack } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";

import { paths } from "@/addresses/paths";
import { useProject } from "@/addresses/useProject";
import { api, body, type Schemas } from "@/api/client";
import { type Organization, organizationsQuery } from "@/api/queries";
import { ConfirmByTyping } from "@/components/ConfirmByTyping";
import { LinkTo } from "@/components/LinkTo";
import { dollars } from "@/components/Money";
import { done, failed } from "@/components/toasts";

import classes from "./Frame.module.css";

type Deletion = Schemas["OrganizationDeletion"];
type Obstacle = Schemas["DeletionObstacle"];

interface DeleteOrganizationProps {
  organization: Organization;
  close: () => void;
}

/** What has to end first is listed; once nothing is left, it is deleted by typing its name. */
export function DeleteOrganization({ organization, close }: DeleteOrganizationProps) {
  const { data, error } = useQuery({
    queryKey: ["organizations", organization.id, "deletion"],
    queryFn: () =>
      body(
        api.GET("/api/v1/organizations/{organization_id}/deletion", {
          params: { path: { organization_id: organization.id } },
        }),
      ),
    // It may have been read a moment ago, before somebody ended what stood in the way.
    staleTime: 0,
    gcTime: 0,
  });
  if (error) return <NotYet organization={organization} why={error.message} close={close} />;
  if (!data) return null;
  if (data.obstacles.length > 0) {
    const why = `${organization.name} cannot be deleted yet. What is left to do:`;
    return <NotYet organization={organization} why={why} obstacles={data.obstacles} close={close} />;
  }
  return <Delete organization={organization} deletion={data} close={close} />;
}

interface NotYetProps extends DeleteOrganizationProps {
  why: string;
  obstacles?: Obstacle[];
}

function NotYet({ organization, why, obstacles = [], close }: NotYetProps) {
  const { project } = useProject();
  return (
    <Modal opened onClose={close} title={`Delete ${organization.name}`} closeButtonProps={{ "aria-label": "Close" }}>
      <Stack gap={16}>
        <p>{why}</p>
        {obstacles.length > 0 ? (
          <ul className={classes.obstacles}>
            {obstacles.map((one) => (
              <li key={one.code}>
                {one.message} <WhereItEnds code={one.code} projectId={project.id} close={close} />
              </li>
            ))}
          </ul>
        ) : null}
        <Group justify="flex-end">
          <Button variant="default" onClick={close} data-autofocus>
            Close
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}

/** The page on which somebody can end it. What the operator has to do has none. */
function WhereItEnds({ code, projectId, close }: { code: Obstacle["code"]; projectId: string; close: () => void }) {
  switch (code) {
    case "containers":
      return (
        <LinkTo to={paths.service(projectId)} onClick={close}>
          Containers
        </LinkTo>
      );
    case "machines":
    case "earnings":
    case "payout_requested":
      return (
        <LinkTo to={paths.section(projectId, "machines")} onClick={close}>
          {code === "machines" ? "Machines" : "Earnings and payouts"}
        </LinkTo>
      );
    case "payment_under_way":
    case "saved_card":
      return (
        <LinkTo to={paths.section(projectId, "billing")} onClick={close}>
          Billing
        </LinkTo>
      );
    default:
      return null;
  }
}

function Delete({ organization, deletion, close }: DeleteOrganizationProps & { deletion: Deletion }) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const remove = useMutation({
    mutationFn: () =>
      body(
        api.DELETE("/api/v1/organizations/{organization_id}", {
          params: {
            path: { organization_id: organization.id },
            query: { name: organization.name, gives_up_microusd: deletion.given_up_microusd },
          },
        }),
      ),
    onSuccess: async () => {
      queries.setQueryData(organizationsQuery.queryKey, (all) => all?.filter((one) => one.id !== organization.id));
      queries.removeQueries({ queryKey: ["projects", "of all organizations"] });
      close();
      await navigate({ to: paths.home() });
      done(`${organization.name} is deleted.`);
    },
    onError: failed,
  });
  return (
    <ConfirmByTyping
      opened
      close={close}
      title={`Delete ${organization.name}`}
      name={organization.name}
      action="Delete organization"
      busy={remove.isPending}
      confirm={() => remove.mutate()}
    >
      Its projects go, its keys stop working at once, and nobody is its member any more. {money(deletion)} Invoices, receipts
      and the audit log stay with the operator: download what you need first.
    </ConfirmByTyping>
  );
}

function money(deletion: Deletion): string {
  const { given_up_microusd, paid_credit_microusd, earned_microusd, called_off_transfers } = deletion;
  const sentences = [];
  if (given_up_microusd > 0) sentences.push(`${dollars(given_up_microusd)} is left in it and cannot be used any more.`);
  const yours = paid_credit_microusd + earned_microusd;
  if (yours > 0) sentences.push(`${dollars(yours)} of that was paid in or earned: ask the operator for it before you delete.`);
  if (called_off_transfers.length > 0)
    sentences.push(`Do not send the bank transfers that you announced (${called_off_transfers.join(", ")}).`);
  return sentences.join(" ");
}
