/**
 * Call sequences: methods that call each other, wherever in the tree. Costs, extensions and zooming
 * as in `vitalfew bottlenecks` (docs/bottlenecks.md).
 */
import type { CallTree } from "./tree";

export type Path = readonly number[];
export type Side = "above" | "below";

/** Where a sequence occurs. */
export interface Occurrences {
  readonly path: Path;
  /** The nodes at which it ends, ascending. */
  readonly ends: readonly number[];
}

export interface Metrics {
  /** Own cost of all nodes along the sequence. */
  readonly base: number;
  /** The same with all that is called below its ends. */
  readonly cum: number;
}

export interface Sequence extends Occurrences, Metrics {}

/**
 * The nodes at which a call sequence ends: where its methods follow each other, the last one
 * innermost.
 */
export function endsOfSequence(tree: CallTree, path: Path): number[] {
  const ends: number[] = [];
  if (path.length === 0) return ends;
  const last = path.at(-1)!;
  for (let node = 1; node < tree.method.length; node++) {
    if (tree.method[node] !== last) continue;
    let at = node;
    let step = path.length - 1;
    while (step >= 0 && at > 0 && tree.method[at] === path[step]) {
      at = tree.parent[at]!;
      step--;
    }
    if (step < 0) ends.push(node);
  }
  return ends;
}

/**
 * What sequences cost together: sums over sets of nodes, so that recursion and overlap count once.
 */
export function totalOf(tree: CallTree, value: number, sequences: readonly Occurrences[]): Metrics {
  const own = tree.own[value]!;
  const along = new Set<number>();
  for (const { path, ends } of sequences) {
    for (const end of ends) {
      for (let at = end, step = path.length; step > 0; at = tree.parent[at]!, step--) along.add(at);
    }
  }
  let base = 0;
  for (const node of along) base += own[node]!;
  let cum = 0;
  let covered = 0;
  const ends = sequences.length === 1 ? sequences[0]!.ends : sequences.flatMap((one) => one.ends).sort((a, b) => a - b);
  const starts: number[] = [];
  for (const end of ends) {
    if (end < covered) continue;
    cum += tree.total[value]![end]!;
    covered = tree.end[end]!;
    starts.push(end);
  }
  // Callers along the way have their own cost as well, where they are in no subtree that is counted
  // already.
  for (const node of along) if (own[node] !== 0 && !isInside(tree, starts, node)) cum += own[node]!;
  return { base, cum };
}

/** Tells whether a node is in one of these subtrees, which ascend and do not overlap. */
function isInside(tree: CallTree, starts: readonly number[], node: number): boolean {
  let [low, high] = [0, starts.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (starts[middle]! <= node) low = middle + 1;
    else high = middle;
  }
  return low > 0 && node < tree.end[starts[low - 1]!]!;
}

/** A sequence with its costs; null if it does not occur. */
export function sequenceOf(tree: CallTree, value: number, path: Path): Sequence | null {
  return measured(tree, value, { path, ends: endsOfSequence(tree, path) });
}

function measured(tree: CallTree, value: number, at: Occurrences): Sequence | null {
  return at.ends.length === 0 ? null : { ...at, ...totalOf(tree, value, [at]) };
}

/** All longer sequences by one caller above, or by one callee below, the dearest first. */
export function extensionsOf(tree: CallTree, value: number, from: Occurrences, side: Side): Sequence[] {
  const nodes = new Map<number, number[]>();
  const put = (method: number, node: number) => {
    const known = nodes.get(method);
    if (known) known.push(node);
    else nodes.set(method, [node]);
  };
  for (const end of from.ends) {
    if (side === "below") {
      for (let child = end + 1; child < tree.end[end]!; child = tree.end[child]!) put(tree.method[child]!, child);
      continue;
    }
    let top = end;
    for (let step = from.path.length; step > 0; step--) top = tree.parent[top]!;
    if (top > 0) put(tree.method[top]!, end);
  }
  const longer = (method: number) => (side === "above" ? [method, ...from.path] : [...from.path, method]);
  // The children of nodes in a recursion do not ascend.
  const all = [...nodes].map(([method, ends]) =>
    measured(tree, value, { path: longer(method), ends: ends.sort((a, b) => a - b) })!,
  );
  return all.sort((a, b) => b.cum - a.cum || lastOf(a, side) - lastOf(b, side));
}

const lastOf = (one: Occurrences, side: Side) => (side === "above" ? one.path[0]! : one.path.at(-1)!);

/** The step that an extension adds, or that trimming takes away, is at this end. */
const without = (path: Path, side: Side) => (side === "above" ? path.slice(1) : path.slice(0, -1));

export interface Zoomed {
  /**
   * The last sequence that has the cost to itself, and that zooming went through; null if there was
   * none.
   */
  readonly through: Sequence | null;
  /** The extensions of it, or of the sequence itself, that have the cost together. */
  readonly extensions: readonly Sequence[];
}

/** Maximum number of steps that zooming adds: longer paths cannot be read. */
const MOST_STEPS = 1000;

/**
 * What matters beside a sequence: the extensions that have `cutoff` of its cum together, those of
 * the only one that has it where one has it alone, and so on.
 */
export function zoomed(tree: CallTree, value: number, sequence: Sequence, side: Side, cutoff: number): Zoomed {
  const goal = cutoff * sequence.cum;
  let through: Sequence | null = null;
  for (;;) {
    const from: Sequence = through ?? sequence;
    const extensions = extensionsOf(tree, value, from, side);
    const count = smallestReaching(tree, value, extensions, goal);
    if (count !== 1) return { through, extensions: extensions.slice(0, count) };
    const only = extensions[0]!;
    // Recursion adds steps and no information.
    if (from.path.includes(lastOf(only, side)) || from.path.length >= sequence.path.length + MOST_STEPS)
      return { through, extensions: [] };
    through = only;
  }
}

/**
 * The smallest number of extensions, from the first, that cost as much together; 0 if all together
 * do not.
 */
function smallestReaching(tree: CallTree, value: number, extensions: readonly Sequence[], goal: number): number {
  const together = (count: number) => totalOf(tree, value, extensions.slice(0, count)).cum;
  if (extensions.length === 0) return 0;
  if (extensions[0]!.cum >= goal) return 1;
  if (together(extensions.length) < goal) return 0;
  let [low, high] = [1, extensions.length];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (together(middle) >= goal) high = middle;
    else low = middle;
  }
  return high;
}

/**
 * The first shorter sequence with notably more cost, or the last there is; null for a single
 * method.
 */
export function trimmed(
  tree: CallTree,
  value: number,
  sequence: Sequence,
  side: Side,
  cutoff: number,
): Sequence | null {
  let found: Sequence | null = null;
  for (let path = without(sequence.path, side); path.length > 0; path = without(path, side)) {
    found = sequenceOf(tree, value, path)!;
    if (sequence.cum < cutoff * found.cum) break;
  }
  return found;
}

/** What a sequence has that others do not have. */
export function newCum(tree: CallTree, value: number, sequence: Sequence, others: readonly Occurrences[]): number {
  return others.length === 0
    ? sequence.cum
    : totalOf(tree, value, [...others, sequence]).cum - totalOf(tree, value, others).cum;
}

/**
 * Costs of sequences shown together: of each what it adds to those before it, and what others have
 * as well.
 */
export function overlapOf(
  tree: CallTree,
  value: number,
  sequences: readonly Sequence[],
): { added: number; shared: number }[] {
  const whole = totalOf(tree, value, sequences).cum;
  let before = 0;
  return sequences.map((one, at) => {
    const together = totalOf(tree, value, sequences.slice(0, at + 1)).cum;
    const added = together - before;
    before = together;
    const others = sequences.filter((_, other) => other !== at);
    return { added, shared: one.cum - (whole - totalOf(tree, value, others).cum) };
  });
}
