import type { NameOf } from "./auditDetails";
import { auditActor, type AuditRecord, auditSentence } from "./auditSentence";
import classes from "./AuditTable.module.css";
import { dollars } from "./Money";
import { Table } from "./Table";
import { clockTime, longDate } from "./times";
import { useNow } from "./useNow";

interface AuditTableProps {
  rows: AuditRecord[];
  empty: string;
  nameOf?: NameOf;
}

/** Who changed what, newest first, in sentences; each opens to the record as it is stored. */
export function AuditTable({ rows, empty, nameOf }: AuditTableProps) {
  const now = useNow(60_000);
  return (
    <Table
      rows={rows}
      rowKey={(row) => row.id}
      empty={empty}
      columns={[
        { head: "Time", wide: true, cell: (row) => <span data-figures>{`${longDate(row.at, now)} ${clockTime(row.at)}`}</span> },
        { head: "What", cell: (row) => <What record={row} nameOf={nameOf} /> },
        { head: "By", wide: true, cell: (row) => auditActor(row, nameOf) },
      ]}
    />
  );
}

function What({ record, nameOf }: { record: AuditRecord; nameOf: NameOf | undefined }) {
  return (
    <details className={classes.what}>
      <summary>{auditSentence(record, nameOf)}</summary>
      <dl>
        {[["action", record.action], ["target", record.target], ["actor", record.actor], ...shown(record.details)].map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt> <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}

/** What is empty is left out, and amounts are dollars. */
function shown(details: Record<string, unknown>): [name: string, value: string][] {
  return Object.entries(details)
    .filter(([, value]) => value !== null && value !== "" && !(Array.isArray(value) && value.length === 0))
    .map(([name, value]) => {
      if (name.endsWith("_microusd") && typeof value === "number")
        return [name.slice(0, -"_microusd".length).replaceAll("_", " "), dollars(value)];
      return [name.replaceAll("_", " "), typeof value === "string" ? value : JSON.stringify(value)];
    });
}
