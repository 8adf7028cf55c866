import type { ReactNode } from "react";

import classes from "./Table.module.css";

export interface Column<Row> {
  head: string;
  cell: (row: Row) => ReactNode;
  /** Numbers stand right. */
  right?: boolean;
  /** Left out on a phone, where two lines have to do. */
  wide?: boolean;
  /** Left out on a tablet too: what comes after it would be outside the page. */
  wider?: boolean;
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
              <th key={column.head} scope="col" {...marks(column)}>
                {column.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)}>
              {columns.map((column, index) => (
                <td key={column.head} {...marks(column)}>
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

function marks<Row>({ right, wide, wider }: Column<Row>) {
  return { "data-right": right || undefined, "data-wide": wide || wider || undefined, "data-wider": wider || undefined };
}
