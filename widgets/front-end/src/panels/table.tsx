/** A table that one can sort by any column. */

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";

import { Icon } from "./icons";

export interface ColumnOf<T> {
  name: string;
  title: string;
  right?: boolean;
  /** What is compared; a column without it cannot be sorted. */
  value?: (row: T) => string | number;
  show: (row: T) => ComponentChildren;
}

/** Rows beyond this many are not drawn: nobody reads them, and the page would feel it. */
const MOST = 500;

interface Props<T> {
  name: string;
  rows: readonly T[];
  columns: readonly ColumnOf<T>[];
  keyOf: (row: T) => string;
  first?: { column: string; down: boolean };
  rowClass?: (row: T) => string;
  /** Rows that stay at the end, in any order. */
  total?: (row: T) => boolean;
}

export function Table<T>({ name, rows, columns, keyOf, first, rowClass, total }: Props<T>): JSX.Element {
  const [order, setOrder] = useState(first ?? null);
  const by = columns.find((column) => column.name === order?.column)?.value;
  const sorted =
    by === undefined ? [...rows] : [...rows].sort((a, b) => compare(by(a), by(b)) * (order?.down ? -1 : 1));
  if (total) sorted.sort((a, b) => Number(total(a)) - Number(total(b)));
  const sort = (column: ColumnOf<T>) =>
    setOrder({ column: column.name, down: order?.column === column.name ? !order.down : column.right === true });
  return (
    <div class="ls-table-box">
      <table class="ls-table" data-ls="table" data-table={name}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th
                key={column.name}
                scope="col"
                class={column.right ? "ls-r" : ""}
                aria-sort={order?.column !== column.name ? undefined : order.down ? "descending" : "ascending"}
              >
                {column.value ? (
                  <button
                    type="button"
                    class="ls-sort"
                    data-ls="sort"
                    data-column={column.name}
                    onClick={() => sort(column)}
                  >
                    {column.title}
                    {order?.column === column.name && <Icon name={order.down ? "down" : "up"} small />}
                  </button>
                ) : (
                  <span class="ls-sort">{column.title}</span>
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sorted.slice(0, MOST).map((row) => (
            <tr
              key={keyOf(row)}
              class={`${rowClass?.(row) ?? ""}${total?.(row) ? " ls-total" : ""}`}
              data-ls="table-row"
              data-key={keyOf(row)}
            >
              {columns.map((column) => (
                <td key={column.name} class={column.right ? "ls-r" : "ls-cut"} data-column={column.name}>
                  {column.show(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {sorted.length > MOST && (
        <div class="ls-foot">and {sorted.length - MOST} more rows; session.op_counts() and its like have them all</div>
      )}
    </div>
  );
}

function compare(a: string | number, b: string | number): number {
  if (typeof a === "number" && typeof b === "number") return a === b ? 0 : a < b ? -1 : 1;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}
