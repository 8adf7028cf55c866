import { Button } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { useState } from "react";

import { handbook } from "@/addresses/handbook";
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
      hint="A new price holds for hours bought from then on."
      actions={
        <Button leftSection={<Plus size={16} strokeWidth={1.5} />} onClick={() => setAdding(true)}>
          Add
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
          empty="The catalogue is empty. Add a type, or nothing can be deployed."
          phoneLine={(row) => hardware(row)}
          columns={[
            { head: "Name", cell: (row) => <span className={classes.name}>{row.name}</span> },
            { head: "Each replica", wide: true, cell: (row) => hardware(row) },
            { head: "Kind", wide: true, cell: (row) => (row.infrastructure === "community" ? "Community" : "Operator") },
            {
              head: "Offered",
              wide: true,
              cell: (row) => (row.enabled ? <span data-tone="ok">Yes</span> : <span data-tone="idle">No</span>),
            },
            { head: "Free now", right: true, wide: true, cell: (row) => row.free.toLocaleString("en-US") },
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
