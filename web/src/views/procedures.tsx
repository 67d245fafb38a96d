/** All procedures as a table. */
import { useMemo } from "preact/hooks";
import { amount, grouped, isScaled, percent, shortened } from "../model/format";
import { compilePattern } from "../model/search";
import { narrow } from "../parts/narrow";
import { ProfileEmpty } from "../parts/profile-empty";
import { type Column, VirtualTable, sortedRows } from "../parts/table";
import { costs, profile, value, whole } from "../state/page";
import { change, linkTo, route } from "../state/route";

interface Row {
  readonly method: number;
  readonly name: string;
  readonly image: string;
  readonly own: number;
  readonly total: number;
}

const byName = (a: Row, b: Row) => (a.name < b.name ? -1 : 1);

export function Procedures() {
  const shown = profile.value;
  const sums = costs.value;
  const { q = "", sort = "own" } = route.value.params;
  const rows = useMemo(
    (): Row[] =>
      shown && sums
        ? shown.names
            .map((name, method) => ({
              method,
              name,
              image: shown.modules[shown.module[method]!]!,
              own: sums.own[method]!,
              total: sums.total[method]!,
            }))
            .filter((row) => row.total !== 0)
        : [],
    [shown, sums],
  );
  const { unit } = value.value;
  // Amounts without a scale of units have theirs in the head: it is the same in each row.
  const plain = unit !== "" && !isScaled(unit);
  const text = (cost: number) => (plain ? grouped(cost) : amount(cost, unit));
  const headed = (title: string) => (plain && !narrow.value ? `${title}, ${unit}` : title);
  const columns: Column<Row>[] = [
    {
      key: "own",
      title: headed("Self"),
      number: true,
      help: "in it itself",
      sort: (a, b) => b.own - a.own,
      cell: (row) => <Bar part={row.own / whole.value} text={text(row.own)} />,
    },
    {
      key: "total",
      title: headed("Total"),
      number: true,
      help: "with what it called; recursion counted once",
      sort: (a, b) => b.total - a.total,
      cell: (row) => <Bar part={row.total / whole.value} text={text(row.total)} />,
    },
    {
      key: "name",
      title: "Procedure",
      wide: true,
      sort: byName,
      cell: (row) => (
        <a href={linkTo("sandwich", { method: row.name, image: row.image })} title={shortened(row.name, 1000)}>
          {shortened(row.name, 110)}
        </a>
      ),
    },
    {
      key: "image",
      title: "Image",
      sort: (a, b) => (a.image === b.image ? b.own - a.own : a.image < b.image ? -1 : 1),
      cell: (row) => shortened(row.image, 40),
    },
  ];
  const matches = compilePattern(q);
  const filtered = useMemo(
    () =>
      sortedRows(
        typeof matches === "function" ? rows.filter((row) => matches(row.name) || matches(row.image)) : rows,
        columns,
        sort,
      ),
    [rows, q, sort],
  );
  if (!shown || whole.value === 0) return <ProfileEmpty />;
  return (
    <div>
      <h1>Procedures</h1>
      <div class="bar controls">
        <label>
          Filter{" "}
          <input
            type="search"
            value={q}
            placeholder="name, image or /regex/"
            onInput={(event) => change({ q: event.currentTarget.value }, true)}
          />
        </label>
        <output>
          {typeof matches === "string" ? matches : `${grouped(filtered.length)} of ${grouped(rows.length)}`}
        </output>
      </div>
      <VirtualTable
        label="Procedures"
        columns={columns}
        rows={filtered}
        id={(row) => row.method}
        sorted={sort}
        onSort={(key) => change({ sort: key })}
      />
    </div>
  );
}

function Bar({ part, text }: { readonly part: number; readonly text: string }) {
  return (
    <span class="cell-bar">
      <span class="fill" style={{ width: `${Math.max(0, Math.min(100, 100 * part))}%` }} />
      <span>{text}</span>
      <span class="quiet">{percent(part)}</span>
    </span>
  );
}
