/** Comparisons as `vitalfew diff --json` has them: which procedures changed by more than chance. */
import type { Result } from "./data";

export interface Difference {
  readonly name: string;
  readonly image?: string;
  readonly a: number;
  readonly b: number;
  readonly change: number;
  readonly low: number;
  readonly high: number;
  /** Null: too few samples to be tested. */
  readonly q: number | null;
  readonly differs: boolean;
}

export interface Comparison {
  /** The files; empty if the result does not name them. */
  readonly sets: readonly string[];
  readonly event: string;
  readonly per: string;
  /** Unit of the amounts. */
  readonly unit: string;
  readonly rows: readonly Difference[];
  readonly total: number;
  readonly tested: number;
  readonly different: number;
  /** How much a row differs from run to run, as a part of it. */
  readonly noise: number | null;
  /** By what factor all samples together differ, and all rows alike. */
  readonly all: readonly [number, number, number] | null;
  readonly common: readonly [number, number, number] | null;
  /** Why they cannot be compared; empty if they are. */
  readonly why: string;
  readonly warnings: readonly string[];
  /** How it was tested. */
  readonly note: string;
}

const number = (value: unknown) => (typeof value === "number" ? value : 0);
const list = (value: unknown) => (Array.isArray(value) ? (value as readonly unknown[]).map(String) : []);

function factor(value: unknown): readonly [number, number, number] | null {
  const one = value as { readonly estimate?: unknown; readonly low?: unknown; readonly high?: unknown } | undefined;
  return one && typeof one.estimate === "number" ? [one.estimate, number(one.low), number(one.high)] : null;
}

/** The comparisons in the page. */
export function comparisonsOf(results: readonly Result[]): Comparison[] {
  return results
    .filter((one) => one.schema === "vitalfew.diff/1")
    .map((one): Comparison => ({
      sets: list(one["sets"]),
      event: typeof one["event"] === "string" ? one["event"] : "",
      per: typeof one["per"] === "string" ? one["per"] : "",
      unit: typeof one["amount_unit"] === "string" ? one["amount_unit"] : one["per"] === "samples" ? "fraction" : "",
      rows: Array.isArray(one["rows"]) ? (one["rows"] as readonly Difference[]) : [],
      total: number(one["rows_total"]),
      tested: number(one["rows_tested"]),
      different: number(one["rows_different"]),
      noise: typeof one["noise"] === "number" ? one["noise"] : null,
      all: factor(one["total"]),
      common: factor(one["common"]),
      why: typeof one["why_not"] === "string" ? one["why_not"] : "",
      warnings: list(one["warnings"]),
      note: "The numbers are those of `vitalfew diff`.",
    }));
}

/**
 * The comparison of two files, in whichever order it was made; of two files whose names are the
 * same, none.
 */
export function comparisonBetween(comparisons: readonly Comparison[], a: string, b: string): Comparison | null {
  return comparisons.find(({ sets }) => sets.length === 2 && a !== b && sets.includes(a) && sets.includes(b)) ?? null;
}

export type Judgement = "more" | "less" | "within chance" | "not tested";

/** What the test says of a row. */
export function judgementOf(row: Difference): Judgement {
  if (row.differs) return row.change > 0 ? "more" : "less";
  return row.q === null ? "not tested" : "within chance";
}

/** The end of a change's interval nearer to nothing. */
export function leastChange(row: Difference): number {
  return row.low > 0 ? row.low : row.high < 0 ? row.high : 0;
}

/**
 * How far the axis goes to both sides: as far as the intervals of what differs; where nothing does,
 * somewhat farther than the changes.
 */
export function axisOf(rows: readonly Difference[]): number {
  const sure = rows.filter((row) => row.differs);
  if (sure.length > 0) return Math.max(...sure.map((row) => Math.max(Math.abs(row.low), Math.abs(row.high))));
  return 1.5 * Math.max(0, ...rows.map((row) => Math.abs(row.change)));
}
