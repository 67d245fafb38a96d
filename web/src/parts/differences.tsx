/**
 * Which procedures differ between two recordings, with intervals, and which by more than chance.
 */
import { ChangeBar } from "../charts/change";
import {
  type Comparison,
  type Difference,
  type Judgement,
  axisOf,
  judgementOf,
  leastChange,
} from "../model/differences";
import { amount, grouped, percent, printable, shortened } from "../model/format";
import { lastPart } from "../model/identity";
import { change as changeRoute, linkTo, route } from "../state/route";
import { type Column, VirtualTable, sortedRows } from "./table";

/** By shape and word, not by colour alone. */
const SIGNS: Readonly<Record<Judgement, string>> = {
  more: "◆ more",
  less: "◆ less",
  "within chance": "○ within chance",
  "not tested": "– too few samples",
};
const PER: Readonly<Record<string, string>> = {
  run: "per run",
  time: "per second",
  work: "per unit of work",
  samples: "as shares of all samples",
};

export function Differences({ comparison }: { readonly comparison: Comparison }) {
  const { sets, rows } = comparison;
  if (comparison.why !== "") return <p class="quiet">No test: {shortened(comparison.why, 300)}</p>;
  const show = (value: number) => (comparison.unit === "fraction" ? percent(value) : amount(value, comparison.unit));
  const signed = (value: number) => `${value > 0 ? "+" : ""}${show(value)}`;
  const most = axisOf(rows);
  const rank = (row: Difference) => (row.differs ? 2 : row.q === null ? 0 : 1);
  const columns: readonly Column<Difference>[] = [
    {
      key: "differs",
      title: "By more than chance",
      help: "Of all rows that are said to differ, at most 5 % are expected not to",
      sort: (x, y) =>
        rank(y) - rank(x) ||
        Math.abs(leastChange(y)) - Math.abs(leastChange(x)) ||
        Math.abs(y.change) - Math.abs(x.change),
      cell: (row) => (row.differs ? <b>{SIGNS[judgementOf(row)]}</b> : SIGNS[judgementOf(row)]),
    },
    {
      key: "name",
      title: "Procedure",
      wide: true,
      sort: (x, y) => (x.name < y.name ? -1 : 1),
      cell: (row) => (
        <a
          href={linkTo("sandwich", { method: row.name, image: lastPart(row.image ?? "") })}
          title={printable(row.image ?? row.name)}
        >
          {shortened(row.name, 44)}
        </a>
      ),
    },
    { key: "a", title: "A", number: true, sort: (x, y) => y.a - x.a, cell: (row) => show(row.a) },
    {
      key: "b",
      title: "B",
      number: true,
      ...(comparison.common ? { help: "Divided by what all rows have in common" } : {}),
      sort: (x, y) => y.b - x.b,
      cell: (row) => show(row.b),
    },
    {
      key: "change",
      title: "Change",
      number: true,
      sort: (x, y) => Math.abs(y.change) - Math.abs(x.change),
      cell: (row) => signed(row.change),
    },
    {
      key: "interval",
      title: "95 % interval",
      number: true,
      sort: (x, y) => Math.abs(leastChange(y)) - Math.abs(leastChange(x)),
      cell: (row) => `[${signed(row.low)}, ${signed(row.high)}]`,
    },
    {
      key: "picture",
      title: "less ◂ 0 ▸ more",
      sort: (x, y) => y.change - x.change,
      cell: (row) => <ChangeBar change={row.change} low={row.low} high={row.high} most={most} sure={row.differs} />,
    },
    {
      key: "q",
      title: "q",
      number: true,
      help: "False discovery rate",
      sort: (x, y) => (x.q ?? 2) - (y.q ?? 2),
      cell: (row) => (row.q === null ? "–" : row.q < 0.001 ? "<0.001" : row.q.toFixed(3)),
    },
  ];
  const sort = route.value.params["sort"] ?? "differs";
  const times = ([estimate, low, high]: readonly [number, number, number]) =>
    `${estimate.toFixed(2)} [${low.toFixed(2)}, ${high.toFixed(2)}]`;
  return (
    <section aria-label={`Procedures that differ: ${sets.join(", ")}`} data-testid="differences">
      <h2>
        {sets.length === 2 ? (
          <>
            From {shortened(sets[0]!, 60)} (A) to {shortened(sets[1]!, 60)} (B)
          </>
        ) : (
          "From A to B"
        )}
      </h2>
      <p>
        {comparison.different === 0
          ? "No procedure differs by more than chance"
          : `${grouped(comparison.different)} ${comparison.different === 1 ? "procedure differs" : "procedures differ"} by more than chance (q ≤ 0.05)`}
        ; {grouped(comparison.tested)} of {grouped(comparison.total)} have enough samples to tell.
        {comparison.all &&
          comparison.per !== "samples" &&
          ` All together take ${times(comparison.all)} times as much in B.`}
        {comparison.common &&
          comparison.per !== "samples" &&
          Math.abs(comparison.common[0] - 1) >= 0.005 &&
          ` Code that did not change took ${times(comparison.common)} times as long in B; B is divided by that here.`}
      </p>
      <VirtualTable
        label="Differences"
        columns={columns}
        rows={sortedRows(rows, columns, sort)}
        id={(row) => `${row.image ?? ""} ${row.name}`}
        sorted={sort}
        onSort={(key) => changeRoute({ sort: key }, true)}
        height={360}
      />
      <p class="quiet">
        {comparison.event} {PER[comparison.per] ?? ""}.
        {comparison.noise !== null && ` Noise from run to run: ${percent(comparison.noise)} of a row.`} ◆ differs by
        more than chance, ○ may be chance. {comparison.note}
      </p>
      {comparison.warnings.map((warning) => (
        <p key={warning} class="doubt">
          {shortened(warning, 240)}
        </p>
      ))}
    </section>
  );
}
