import { Button } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { useState } from "react";

import { handbook } from "@/addresses/handbook";
import type { InstanceType } from "@/api/queries";
import { Money } from "@/components/Money";
import { Card, Page } from "@/components/Page";
import { Table } from "@/components/Table";
import { hardware } from "@/containers/resources";

import { AddInstanceType, type Proposal } from "./AddInstanceType";
import { InstanceTypeActions } from "./InstanceTypeActions";
import classes from "./Operator.module.css";
import { catalogueQuery, proposalsQuery } from "./queries";

/** The catalogue: what can be rented, and for how much. */
export function InstanceTypes() {
  const { data: types } = useSuspenseQuery(catalogueQuery);
  const { data: proposals } = useSuspenseQuery(proposalsQuery);
  const [adding, setAdding] = useState<Proposal | boolean>(false);
  return (
    <Page
      learn={handbook.gpus}
      title="Instance types"
      hint="A new price applies to hours that are bought after the change."
      actions={
        <Button leftSection={<Plus size={16} strokeWidth={1.5} />} onClick={() => setAdding(true)}>
          Add an instance type
        </Button>
      }
    >
      {proposals.length > 0 ? (
        <Card title="Proposed for GPUs that nothing offers">
          <ul className={classes.proposals}>
            {proposals.map((one) => (
              <li key={one.name}>
                <span className={classes.name}>{one.name}</span>
                <span className={classes.quiet}>{hardware(one)}</span>
                <span className={classes.quiet}>{one.because}</span>
                <Button variant="default" size="xs" onClick={() => setAdding(one)} aria-label={`Add ${one.name}`}>
                  Add
                </Button>
              </li>
            ))}
          </ul>
        </Card>
      ) : null}
      <Card flush label="Instance types">
        <Table
          rows={types}
          rowKey={(row) => row.name}
          empty="No instance type yet. Add one: without it, nothing can be deployed."
          columns={[
            { head: "Name", cell: (row) => <span className={classes.name}>{row.name}</span> },
            { head: "Each replica", wide: true, cell: (row) => hardware(row) },
            { head: "Runs on", wide: true, cell: (row) => (row.infrastructure === "community" ? "Community machines" : "Your machines") },
            {
              head: "Offered",
              wide: true,
              cell: (row) => (row.enabled ? <span data-tone="ok">Yes</span> : <span data-tone="idle">No</span>),
            },
            { head: "Would fit now", right: true, wide: true, cell: (row) => <Room type={row} /> },
            { head: "Price/h", right: true, cell: (row) => <Money microusd={row.price_per_hour_microusd} /> },
            { head: "Actions", right: true, cell: (row) => <InstanceTypeActions type={row} /> },
          ]}
        />
      </Card>
      {adding ? (
        <AddInstanceType proposal={adding === true ? null : adding} close={() => setAdding(false)} />
      ) : null}
    </Page>
  );
}

/** How many replicas of it alone; one that is on sale and fits nowhere makes a customer wait. */
function Room({ type }: { type: InstanceType }) {
  if (type.free > 0) return type.free.toLocaleString("en-US");
  return type.enabled ? <span data-tone="warn">No room</span> : "0";
}
