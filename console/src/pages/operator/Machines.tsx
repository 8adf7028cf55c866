import { Button } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { useState } from "react";

import { handbook } from "@/addresses/handbook";
import { Card, Page } from "@/components/Page";
import { Empty } from "@/components/Patterns";
import { Table } from "@/components/Table";
import { useNow } from "@/components/useNow";
import { counted } from "@/machines/condition";
import { MachineCondition } from "@/machines/MachineCondition";

import { AboutNode } from "./AboutNode";
import { AddMachine } from "./AddMachine";
import { LentMachines } from "./LentMachines";
import { MachineActions } from "./MachineActions";
import { Gpus, lastSeen, Memory, Name, Processors } from "./MachineCells";
import { conditionOf, isLent, listed, replicasOf, troubleFirst } from "./machineList";
import { machinesQuery, nodesQuery } from "./queries";
import { TunnelNotice } from "./TunnelNotice";
import { useOrganizationName } from "./useOrganizationName";

/** The installation's own machine and those that joined: how each is, what is promised there, and what can be said about it. */
export function Machines() {
  const { data: nodes } = useSuspenseQuery(nodesQuery);
  const { data: machines } = useSuspenseQuery(machinesQuery);
  const [adding, setAdding] = useState(false);
  const now = useNow(5_000);
  const all = troubleFirst(listed(nodes, machines), now);
  const lent = all.filter(isLent);
  const own = all.filter((one) => !isLent(one));
  const organizationName = useOrganizationName();
  const overcommit = nodes[0]?.cpu_overcommit ?? 1;
  const add = (
    <Button leftSection={<Plus size={16} strokeWidth={1.5} />} onClick={() => setAdding(true)}>
      Add a machine
    </Button>
  );
  return (
    <Page
      learn={handbook.machines}
      title="Machines"
      hint={overcommit > 1 ? `Each processor core is offered ${overcommit} times.` : undefined}
      actions={machines.length > 0 ? add : undefined}
    >
      <TunnelNotice />
      <Card flush label="Machines" title="Your own machines" hint={counted(own.map((one) => conditionOf(one, now).look))}>
        <Table
          rows={own}
          rowKey={(row) => row.key}
          empty="No machine has reported yet. One appears as soon as the controller reaches its engine."
          columns={[
            { head: "Name", cell: (row) => <Name one={row} /> },
            { head: "State", cell: (row) => <MachineCondition condition={conditionOf(row, now)} now={now} /> },
            { head: "GPUs", wide: true, cell: (row) => <Gpus one={row} /> },
            { head: "vCPU promised", wider: true, cell: (row) => <Processors one={row} /> },
            { head: "Memory promised", wider: true, cell: (row) => <Memory one={row} /> },
            { head: "Replicas", right: true, wide: true, cell: (row) => replicasOf(row).toLocaleString("en-US") },
            { head: "Last seen", wider: true, cell: (row) => lastSeen(row, now) },
            { head: "Actions", right: true, cell: (row) => <MachineActions one={row} all={all} /> },
          ]}
        />
      </Card>
      {lent.length > 0 ? <LentMachines lent={lent} all={all} now={now} organizationName={organizationName} /> : null}
      {machines.length === 0 ? (
        <Card flush label="More machines">
          <Empty action={add} command="moor machines add">
            Containers run on this machine alone. Others join by one command each: servers with Debian 12 or newer, or Ubuntu
            24.04 or newer, also behind a router.
          </Empty>
        </Card>
      ) : null}
      {all.map((one) => (one.node ? <AboutNode key={one.key} node={one.node} /> : null))}
      {adding ? <AddMachine close={() => setAdding(false)} /> : null}
    </Page>
  );
}

