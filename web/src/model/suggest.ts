/** Where a search for call sequences can start, by the suggesters of `vitalfew bottlenecks`. */
import { type Occurrences, type Sequence, extensionsOf, newCum, overlapOf, sequenceOf, totalOf } from "./sequences";
import type { ProcedureCosts } from "./procedures";
import type { CallTree } from "./tree";

/** The name of each, and what it lists. */
export const SUGGESTERS = [
  ["Auto", "what the search by itself found"],
  ["HighCum", "methods by cum: from the top down"],
  ["HighBase", "methods by base: from the bottom up"],
  ["NewCum", "methods by the cum that no label has"],
  ["NewBase", "methods by the base that no label has"],
] as const;
export type Suggester = (typeof SUGGESTERS)[number][0];

/** A sequence with the amount that it is ranked by. */
export interface Suggested {
  readonly sequence: Sequence;
  readonly amount: number;
}

/** Maximum number of methods that are looked at for what is new. */
const CANDIDATES = 1000;

/** The sequences that a ranking of methods begins with; `Auto` is no ranking. */
export function suggestedSequences(
  tree: CallTree,
  value: number,
  costs: ProcedureCosts,
  by: Exclude<Suggester, "Auto">,
  labelled: readonly Occurrences[],
  limit: number,
): Suggested[] {
  const amounts = by.endsWith("Cum") ? costs.total : costs.own;
  const methods = [...amounts.keys()]
    .filter((method) => amounts[method]! > 0)
    .sort((a, b) => amounts[b]! - amounts[a]! || a - b);
  if (by === "HighCum")
    return joinedCallers(tree, value, methods, costs, limit).map((sequence) => ({ sequence, amount: sequence.cum }));
  const measured = (method: number) => sequenceOf(tree, value, [method])!;
  if (by === "HighBase" || labelled.length === 0)
    return methods.slice(0, limit).map((method) => ({ sequence: measured(method), amount: amounts[method]! }));
  const found: Suggested[] = [];
  const before = totalOf(tree, value, labelled).base;
  for (const method of methods.slice(0, CANDIDATES)) {
    // What is new is no more than the amount.
    if (found.length >= limit && amounts[method]! < found[limit - 1]!.amount) break;
    const sequence = measured(method);
    const amount =
      by === "NewCum"
        ? newCum(tree, value, sequence, labelled)
        : totalOf(tree, value, [...labelled, sequence]).base - before;
    const place = found.findIndex((one) => one.amount < amount);
    found.splice(place < 0 ? found.length : place, 0, { sequence, amount });
  }
  return found.filter((one) => one.amount > 1e-9 * tree.total[value]![0]!).slice(0, limit);
}

/** Sequences by what each adds to those before it, the most first: amounts that add up. */
export function withoutOverlap(tree: CallTree, value: number, sequences: readonly Sequence[]): Suggested[] {
  const added = overlapOf(tree, value, sequences).map((one, at) => ({ sequence: sequences[at]!, amount: one.added }));
  return added.sort((a, b) => b.amount - a.amount);
}

/**
 * Joins each method that only calls one other, which nobody else calls, with that one: a list by
 * cum would begin with the whole way to `main`.
 */
function joinedCallers(
  tree: CallTree,
  value: number,
  methods: readonly number[],
  costs: ProcedureCosts,
  limit: number,
): Sequence[] {
  const rest = new Set(methods);
  const kept: Sequence[] = [];
  for (const method of methods) {
    if (!rest.delete(method)) continue;
    if (kept.length >= limit) break;
    let sequence = sequenceOf(tree, value, [method])!;
    while (sequence.base === 0) {
      const callees = extensionsOf(tree, value, sequence, "below");
      const callee = callees[0]?.path.at(-1);
      if (callees.length !== 1 || callee === undefined || costs.total[callee] !== sequence.cum || !rest.delete(callee))
        break;
      sequence = callees[0]!;
    }
    kept.push(sequence);
  }
  return kept;
}
