import { Button } from "@mantine/core";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Plus, ReceiptText } from "lucide-react";
import { useRef, useState } from "react";

import { handbook } from "@/addresses/handbook";
import { useProject } from "@/addresses/useProject";
import { meQuery } from "@/api/queries";
import { Page } from "@/components/Page";

import { Add } from "./Add";
import { EarningsCard, type Shown } from "./EarningsCard";
import classes from "./Machines.module.css";
import { machinesQuery, monthQuery } from "./queries";
import { PayoutCard } from "./PayoutCard";
import { RequestPayout } from "./RequestPayout";
import { Sums } from "./Sums";
import { WhoSeesWhat } from "./WhoSeesWhat";
import { YourMachines } from "./YourMachines";

/** Machines that an organization lends: how each is, what they earn, and what owners and tenants see of each other. */
export function Machines() {
  const { project, organization, isAdmin } = useProject();
  const organizationId = project.organization_id;
  const { data: me } = useSuspenseQuery(meQuery);
  const { data: machines } = useSuspenseQuery(machinesQuery(organizationId));
  const { data: month } = useQuery({ ...monthQuery(organizationId), enabled: isAdmin });
  const mayAdd = isAdmin && me.community_machines;
  // Whoever has none yet came to add one; else the list comes first.
  const [adding, setAdding] = useState(machines.length === 0);
  const [shown, setShown] = useState<Shown>("entries");
  const earnings = useRef<HTMLDivElement>(null);
  const showStatements = () => {
    setShown("statements");
    earnings.current?.scrollIntoView({ block: "start" });
  };
  return (
    <Page
      title="Machines"
      hint={`Lent by ${organization?.name ?? "your organization"} to this installation, as community machines.`}
      learn={handbook.lendAMachine}
      actions={
        isAdmin ? (
          <>
            {mayAdd && !adding ? (
              <Button variant="default" leftSection={<Plus size={16} strokeWidth={1.5} />} onClick={() => setAdding(true)}>
                Add a machine
              </Button>
            ) : null}
            <Button variant="default" leftSection={<ReceiptText size={16} strokeWidth={1.5} />} onClick={showStatements}>
              Statements
            </Button>
            <RequestPayout organizationId={organizationId} />
          </>
        ) : undefined
      }
    >
      <Sums organizationId={organizationId} machines={machines} month={month} isAdmin={isAdmin} />
      {mayAdd && adding ? <Add organizationId={organizationId} machines={machines} close={() => setAdding(false)} /> : null}
      {me.community_machines ? null : (
        <p className={classes.closed}>The operator does not accept machines of organizations here.</p>
      )}
      <YourMachines machines={machines} month={month} isAdmin={isAdmin} />
      <WhoSeesWhat />
      {isAdmin ? (
        <div className={classes.columns} ref={earnings}>
          <EarningsCard organizationId={organizationId} shown={shown} show={setShown} />
          <PayoutCard organizationId={organizationId} />
        </div>
      ) : null}
    </Page>
  );
}
