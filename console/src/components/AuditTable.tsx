import type { Schemas } from "@/api/client";

import classes from "./AuditTable.module.css";
import { dollars } from "./Money";
import { Table } from "./Table";
import { clockTime, longDate } from "./times";
import { useNow } from "./useNow";

/** Who changed what, newest first. */
export function AuditTable({ rows, empty }: { rows: Schemas["AuditRecord"][]; empty: string }) {
  const now = useNow(60_000);
  return (
    <Table
      rows={rows}
      rowKey={(row) => row.id}
      phoneLine={by}
      empty={empty}
      columns={[
        { head: "What", cell: (row) => <code>{row.action}</code> },
        { head: "By", wide: true, cell: (row) => <span className={classes.long}>{by(row)}</span> },
        { head: "Target", wide: true, cell: (row) => <code>{row.target}</code> },
        {
          head: "Detail",
          wide: true,
          cell: (row) => (
            <span className={classes.long} title={shown(row.details)}>
              {shown(row.details)}
            </span>
          ),
        },
        { head: "Time", right: true, cell: (row) => `${longDate(row.at, now)} ${clockTime(row.at)}` },
      ]}
    />
  );
}

function by(row: Schemas["AuditRecord"]): string {
  return row.actor_email ?? row.actor;
}

/** "scope inference, name my-app": what is empty is left out, and amounts are dollars. */
function shown(details: Record<string, unknown>): string {
  return Object.entries(details)
    .filter(([, value]) => value !== null && value !== "" && !(Array.isArray(value) && value.length === 0))
    .map(([name, value]) => {
      if (name.endsWith("_microusd") && typeof value === "number")
        return `${name.slice(0, -"_microusd".length).replaceAll("_", " ")} ${dollars(value)}`;
      return `${name.replaceAll("_", " ")} ${typeof value === "string" ? value : JSON.stringify(value)}`;
    })
    .join(", ");
}
