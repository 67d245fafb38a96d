/**
 * Call trees as columns in preorder: node 0 is the root, a node's descendants are the numbers after
 * it up to `end`.
 */

export interface CallTree {
  readonly method: Int32Array;
  readonly parent: Int32Array;
  readonly depth: Int32Array;
  readonly end: Int32Array;
  /** By value: the node's own cost. */
  readonly own: readonly Float64Array[];
  /** By value: with what it called. */
  readonly total: readonly Float64Array[];
}

/**
 * Makes a tree of columns without the root, as the data have them; costs begin with the root's.
 * Throws on what is no tree.
 */
export function treeOfColumns(
  depths: readonly number[],
  methods: readonly number[],
  costs: readonly (readonly number[])[],
): CallTree {
  const count = depths.length + 1;
  if (methods.length !== depths.length || costs.some((cost) => cost.length !== count))
    throw new Error("columns of different lengths");
  const method = new Int32Array(count);
  const depth = new Int32Array(count);
  const parent = new Int32Array(count);
  method[0] = -1;
  const open: number[] = [0];
  for (let node = 1; node < count; node++) {
    const deep = depths[node - 1]!;
    if (deep < 1 || deep > open.length) throw new Error("not in preorder");
    open.length = deep;
    depth[node] = deep;
    method[node] = methods[node - 1]!;
    parent[node] = open[deep - 1]!;
    open.push(node);
  }
  return withSums(
    method,
    parent,
    depth,
    costs.map((cost) => Float64Array.from(cost)),
  );
}

function withSums(method: Int32Array, parent: Int32Array, depth: Int32Array, own: Float64Array[]): CallTree {
  const count = method.length;
  const end = new Int32Array(count);
  for (let node = 0; node < count; node++) end[node] = node + 1;
  for (let node = count - 1; node > 0; node--) end[parent[node]!] = Math.max(end[parent[node]!]!, end[node]!);
  const total = own.map((costs) => {
    const sums = Float64Array.from(costs);
    for (let node = count - 1; node > 0; node--) sums[parent[node]!]! += sums[node]!;
    return sums;
  });
  return { method, parent, depth, end, own, total };
}

/** Builds a tree context by context, in any order. */
export class TreeBuilder {
  private readonly methods: number[] = [-1];
  private readonly parents: number[] = [0];
  private readonly costs: number[][];
  private readonly index = new Map<number, number>();
  private readonly span: number;

  constructor(
    methodCount: number,
    values: number,
    private readonly limit = Infinity,
  ) {
    this.span = methodCount + 1;
    this.costs = Array.from({ length: values }, () => [0]);
  }

  get size(): number {
    return this.methods.length;
  }

  /** The node of a method called from another node. Past the limit, the caller itself. */
  child(parent: number, method: number): number {
    const key = parent * this.span + method;
    const known = this.index.get(key);
    if (known !== undefined) return known;
    if (this.methods.length >= this.limit) return parent;
    const node = this.methods.length;
    this.methods.push(method);
    this.parents.push(parent);
    for (const cost of this.costs) cost.push(0);
    this.index.set(key, node);
    return node;
  }

  add(node: number, value: number, cost: number): void {
    this.costs[value]![node]! += cost;
  }

  /**
   * The tree, in each node the heaviest child first (by the sum of all values, which views give as
   * one or two sides), or in the order in which they were added.
   */
  finish(asAdded = false): CallTree {
    const count = this.methods.length;
    const weight = new Float64Array(count);
    for (const cost of this.costs) for (let node = 0; node < count; node++) weight[node]! += Math.abs(cost[node]!);
    for (let node = count - 1; node > 0; node--) weight[this.parents[node]!]! += weight[node]!;
    const order = Array.from({ length: count }, (_, node) => node);
    order.sort(
      (a, b) =>
        this.parents[b]! - this.parents[a]! ||
        (asAdded ? b - a : weight[a]! - weight[b]! || this.methods[b]! - this.methods[a]!),
    );
    // By caller: where its children begin in `order`, the lightest first.
    const first = new Int32Array(count + 1).fill(-1);
    const last = new Int32Array(count + 1);
    order.forEach((node, at) => {
      if (node === 0) return;
      const caller = this.parents[node]!;
      if (first[caller] === -1) first[caller] = at;
      last[caller] = at + 1;
    });
    const method = new Int32Array(count);
    const parent = new Int32Array(count);
    const depth = new Int32Array(count);
    const own = this.costs.map(() => new Float64Array(count));
    const place = new Int32Array(count);
    const waiting = [0];
    for (let at = 0; waiting.length > 0; at++) {
      const node = waiting.pop()!;
      place[node] = at;
      method[at] = this.methods[node]!;
      parent[at] = node === 0 ? 0 : place[this.parents[node]!]!;
      depth[at] = node === 0 ? 0 : depth[parent[at]!]! + 1;
      own.forEach((column, value) => (column[at] = this.costs[value]![node]!));
      if (first[node] !== -1)
        for (let child = first[node]!; child < last[node]!; child++)
          if (order[child] !== 0) waiting.push(order[child]!);
    }
    return withSums(method, parent, depth, own);
  }
}

/** The methods from the outermost frame to a node. */
export function pathOf(tree: CallTree, node: number): number[] {
  const path: number[] = [];
  for (let at = node; at > 0; at = tree.parent[at]!) path.push(tree.method[at]!);
  return path.reverse();
}

/** The children of a node, in order. */
export function childrenOf(tree: CallTree, node: number): number[] {
  const children: number[] = [];
  for (let child = node + 1; child < tree.end[node]!; child = tree.end[child]!) children.push(child);
  return children;
}
