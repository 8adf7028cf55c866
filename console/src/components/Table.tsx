import { useMediaQuery } from "@mantine/hooks";
import type { ReactNode } from "react";

import { cutEdges } from "./cutEdges";
import classes from "./Table.module.css";

export interface Column<Row> {
  head: string;
  cell: (row: Row) => ReactNode;
  /** Numbers stand right. */
  right?: boolean;
  /** On a phone it stands in the row's second line, after its head. */
  wide?: boolean;
  /** On a tablet too: what comes after it would be outside the page. */
  wider?: boolean;
}

interface TableProps<Row> {
  rows: Row[];
  columns: Column<Row>[];
  rowKey: (row: Row) => string;
  empty: string;
}

/** Rows and columns. What a small screen has no room for is not left out, but stands in a second line of its row. */
export function Table<Row>({ rows, columns, rowKey, empty }: TableProps<Row>) {
  const isBelow = useFolding();
  if (rows.length === 0) return <p className={classes.empty}>{empty}</p>;
  const beside = columns.filter((column) => !isBelow(column));
  const below = columns.filter(isBelow);
  return (
    <div ref={cutEdges} className={classes.scroll} tabIndex={0} role="region" aria-label="Table">
      <table className={classes.table}>
        <thead>
          <tr>
            {beside.map((column) => (
              <th key={column.head} scope="col" data-right={column.right || undefined}>
                {column.head}
              </th>
            ))}
          </tr>
        </thead>
        {rows.map((row) => (
          <tbody key={rowKey(row)}>
            <tr>
              {beside.map((column) => (
                <td key={column.head} data-right={column.right || undefined}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
            {below.length > 0 ? (
              <tr className={classes.below}>
                <td colSpan={beside.length}>
                  <dl>
                    {below.map((column) => (
                      <div key={column.head}>
                        <dt>{column.head}</dt> <dd>{column.cell(row)}</dd>
                      </div>
                    ))}
                  </dl>
                </td>
              </tr>
            ) : null}
          </tbody>
        ))}
      </table>
    </div>
  );
}

function useFolding(): (column: Pick<Column<never>, "wide" | "wider">) => boolean {
  const isPhone = useMediaQuery("(max-width: 767px)", undefined, { getInitialValueInEffect: false });
  const isTablet = useMediaQuery("(max-width: 1199px)", undefined, { getInitialValueInEffect: false });
  return ({ wide = false, wider = false }) => (isPhone && wide) || (isTablet && wider);
}
