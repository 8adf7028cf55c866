import type { ReactNode } from "react";

import classes from "./Table.module.css";

export interface Column<Row> {
  head: string;
  cell: (row: Row) => ReactNode;
  /** Numbers stand right. */
  right?: boolean;
  /** Left out on a phone, where two lines have to do. */
  wide?: boolean;
}

interface TableProps<Row> {
  rows: Row[];
  columns: Column<Row>[];
  rowKey: (row: Row) => string;
  empty: string;
  /** What the columns that a phone leaves out say, in one line below the first cell. */
  phoneLine?: (row: Row) => ReactNode;
}

export function Table<Row>({ rows, columns, rowKey, empty, phoneLine }: TableProps<Row>) {
  if (rows.length === 0) return <p className={classes.empty}>{empty}</p>;
  return (
    <div className={classes.scroll} tabIndex={0} role="region" aria-label="Table">
      <table className={classes.table}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.head} scope="col" data-right={column.right || undefined} data-wide={column.wide || undefined}>
                {column.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)}>
              {columns.map((column, index) => (
                <td key={column.head} data-right={column.right || undefined} data-wide={column.wide || undefined}>
                  {column.cell(row)}
                  {index === 0 && phoneLine ? <span className={classes.phoneLine}>{phoneLine(row)}</span> : null}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
