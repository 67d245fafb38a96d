/** Costs by method. */
import type { CallTree } from "./tree";

export interface ProcedureCosts {
  readonly own: Float64Array;
  /** With what it called; recursion counted once. */
  readonly total: Float64Array;
}

/** Adds a value up by method. */
export function procedureCosts(tree: CallTree, value: number, methods: number): ProcedureCosts {
  const own = new Float64Array(methods);
  const total = new Float64Array(methods);
  // By method: up to which node its outermost open call reaches.
  const open = new Int32Array(methods);
  for (let node = 1; node < tree.method.length; node++) {
    const method = tree.method[node]!;
    own[method]! += tree.own[value]![node]!;
    if (node < open[method]!) continue;
    total[method]! += tree.total[value]![node]!;
    open[method] = tree.end[node]!;
  }
  return { own, total };
}
