/** A table of any length: only the rows that are seen exist. Headings sort. */
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { narrow } from "./narrow";

export interface Column<Row> {
  readonly key: string;
  readonly title: string;
  readonly help?: string;
  readonly number?: boolean;
  /** Takes the room that the others leave. */
  readonly wide?: boolean;
  readonly sort: (a: Row, b: Row) => number;
  readonly cell: (row: Row) => ComponentChildren;
}

interface Props<Row> {
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly id: (row: Row) => string | number;
  readonly sorted: string;
  readonly onSort: (key: string) => void;
  readonly height?: number;
}

const ROW = 28;

export function VirtualTable<Row>({ label, columns: given, rows, id, sorted, onSort, height = 560 }: Props<Row>) {
  const [top, setTop] = useState(0);
  // Where there is no room for all, names come first and stay in sight.
  const columns = narrow.value ? [...given].sort((a, b) => Number(b.wide ?? false) - Number(a.wide ?? false)) : given;
  const box = useRef<HTMLDivElement>(null);
  const first = Math.max(0, Math.min(rows.length - 1, Math.floor(top / ROW) - 5));
  const last = Math.min(rows.length, first + Math.ceil(height / ROW) + 12);
  return (
    <div
      class="table"
      ref={box}
      style={{ maxHeight: `${height}px` }}
      tabIndex={0}
      role="region"
      aria-label={label}
      onScroll={() => setTop(box.current?.scrollTop ?? 0)}
    >
      <table aria-rowcount={rows.length + 1}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th
                key={column.key}
                scope="col"
                class={column.number ? "number" : column.wide ? "fills" : ""}
                aria-sort={sorted === column.key ? "descending" : "none"}
                title={column.help}
              >
                <button type="button" onClick={() => onSort(column.key)}>
                  {column.title}
                  {sorted === column.key ? " ▾" : ""}
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && (
            <tr aria-hidden="true" style={{ height: `${first * ROW}px` }}>
              <td colSpan={columns.length} />
            </tr>
          )}
          {rows.slice(first, last).map((row, at) => (
            <tr key={id(row)} aria-rowindex={first + at + 2} style={{ height: `${ROW}px` }}>
              {columns.map((column) => (
                <td key={column.key} class={column.number ? "number" : column.wide ? "fills" : ""}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
          {last < rows.length && (
            <tr aria-hidden="true" style={{ height: `${(rows.length - last) * ROW}px` }}>
              <td colSpan={columns.length} />
            </tr>
          )}
        </tbody>
      </table>
    </div>
  );
}

/** Sorts a copy by the column of that key, or the first one. */
export function sortedRows<Row>(rows: readonly Row[], columns: readonly Column<Row>[], key: string): Row[] {
  const column = columns.find((one) => one.key === key) ?? columns[0]!;
  return [...rows].sort(column.sort);
}
