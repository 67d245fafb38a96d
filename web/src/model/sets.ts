/**
 * Sets of recordings, and which procedures differ between the runs of two of them, by how the runs
 * of each vary.
 */
import type { Comparison, Difference } from "./differences";

/** The profiles of each side, by number. */
export type Sides = readonly [readonly number[], readonly number[]];

/**
 * Reads sides as the address has them: a letter for each profile, `A`, `B` or `-`. Null if there is
 * nothing.
 */
export function parseSides(text: string, profiles: number): Sides | null {
  const of = (side: string) => Array.from({ length: profiles }, (_, at) => at).filter((at) => text[at] === side);
  return text === "" ? null : [of("A"), of("B")];
}

/** The same as text. */
export function formatSides([a, b]: Sides, profiles: number): string {
  return Array.from({ length: profiles }, (_, at) => (a.includes(at) ? "A" : b.includes(at) ? "B" : "-")).join("");
}

/**
 * Student's t distribution. With t = √df tan θ its density is that of cos θ to the power df - 1.
 */
export class StudentT {
  private readonly all: number;

  constructor(private readonly df: number) {
    this.all = this.beyond(0);
  }

  private density(angle: number): number {
    return Math.max(0, Math.cos(angle)) ** (this.df - 1);
  }

  /** By Simpson's rule: the function is smooth. */
  private beyond(from: number): number {
    const steps = 200;
    const width = (Math.PI / 2 - from) / steps;
    let sum = 0;
    for (let at = 0; at <= steps; at++)
      sum += (at === 0 || at === steps ? 1 : at % 2 === 1 ? 4 : 2) * this.density(from + at * width);
    return (sum * width) / 3;
  }

  /** The part beyond `t` to both sides. */
  tails(t: number): number {
    return Math.min(1, this.beyond(Math.atan(Math.abs(t) / Math.sqrt(this.df))) / this.all);
  }

  /**
   * The t beyond which 5 % are, by Newton's method: the tails get steadily flatter, so that it
   * comes from below.
   */
  critical(): number {
    let angle = Math.atan(1 / Math.sqrt(this.df));
    for (let turn = 0; turn < 12; turn++) angle += (this.beyond(angle) - 0.05 * this.all) / this.density(angle);
    return Math.sqrt(this.df) * Math.tan(angle);
  }
}

/**
 * The change of the mean from the runs of A to those of B: its 95 % interval, and how probable so
 * great a one is by chance (Welch 1947). Null: one run does not say how runs vary.
 */
export function meanChange(
  a: readonly number[],
  b: readonly number[],
): { change: number; low: number; high: number; p: number } | null {
  if (a.length < 2 || b.length < 2) return null;
  const mean = (of: readonly number[]) => of.reduce((sum, one) => sum + one, 0) / of.length;
  const errorOf = (of: readonly number[]) =>
    of.reduce((sum, one) => sum + (one - mean(of)) ** 2, 0) / (of.length - 1) / of.length;
  const change = mean(b) - mean(a);
  const [errorA, errorB] = [errorOf(a), errorOf(b)];
  const error = Math.sqrt(errorA + errorB);
  if (error === 0) return { change, low: change, high: change, p: change === 0 ? 1 : 0 };
  const df = (errorA + errorB) ** 2 / (errorA ** 2 / (a.length - 1) + errorB ** 2 / (b.length - 1));
  const chance = new StudentT(df);
  const reach = chance.critical() * error;
  return { change, low: change - reach, high: change + reach, p: chance.tails(change / error) };
}

/**
 * The share of rows that differ by chance among those that are said to (Benjamini and Hochberg
 * 1995), by p.
 */
export function discoveryRates(p: readonly number[]): number[] {
  const order = p.map((_, at) => at).sort((x, y) => p[y]! - p[x]!);
  const rates = new Array<number>(p.length);
  let least = 1;
  order.forEach((at, greater) => (rates[at] = least = Math.min(least, (p[at]! * p.length) / (p.length - greater))));
  return rates;
}

/** A row with less of every run is not tested. */
const LEAST_SHARE = 0.005;

/** One run: what each method costs by itself, by common numbers, and all of it. */
export interface SetRun {
  readonly own: Float64Array;
  readonly whole: number;
}

/** Compares two sets of runs, as shares of each or in the runs' own unit. */
export function comparisonOfRuns(
  sides: readonly [readonly SetRun[], readonly SetRun[]],
  names: readonly string[],
  what: { readonly event: string; readonly unit: string; readonly shares: boolean },
): Comparison {
  const [a, b] = sides;
  const runs = [...a, ...b];
  const amountOf = (run: SetRun, method: number) => run.own[method]! / (what.shares ? run.whole || 1 : 1);
  const methods = [...names.keys()].filter((method) => runs.some((run) => run.own[method]! > LEAST_SHARE * run.whole));
  const changes = methods.map((method) =>
    meanChange(
      a.map((run) => amountOf(run, method)),
      b.map((run) => amountOf(run, method)),
    ),
  );
  const rates = discoveryRates(changes.map((one) => one?.p ?? 1));
  const mean = (of: readonly SetRun[], method: number) =>
    of.reduce((sum, run) => sum + amountOf(run, method), 0) / of.length;
  const rows = methods.flatMap((method, at): Difference[] => {
    const change = changes[at];
    return change
      ? [
          {
            name: names[method]!,
            a: mean(a, method),
            b: mean(b, method),
            change: change.change,
            low: change.low,
            high: change.high,
            q: rates[at]!,
            differs: rates[at]! <= 0.05,
          },
        ]
      : [];
  });
  return {
    sets: [`${a.length} recordings`, `${b.length} recordings`],
    event: what.event,
    per: what.shares ? "samples" : "run",
    unit: what.shares ? "fraction" : what.unit,
    rows,
    total: [...names.keys()].filter((method) => runs.some((run) => run.own[method]! > 0)).length,
    tested: rows.length,
    different: rows.filter((row) => row.differs).length,
    noise: null,
    all: null,
    common: null,
    warnings: [],
    why:
      Math.min(a.length, b.length) < 2 ? "one recording does not say how runs vary: put two or more on each side" : "",
    note: "The recordings of each side are runs, and how they vary is the noise (Welch's t test); A and B are means.",
  };
}
