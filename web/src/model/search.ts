/** Questions about trees: where methods are, what call sequences cost. Overlap counts once in all of them. */
import type { CallTree } from "./tree";

/** Compiles what was typed: /regex/ between slashes, else a part of the name. Null: matches nothing; a string says why. */
export function compilePattern(text: string): ((name: string) => boolean) | string | null {
  if (text === "") return null;
  if (text.length > 2 && text.startsWith("/") && text.endsWith("/")) {
    try {
      const regex = new RegExp(text.slice(1, -1), "iu");
      return (name) => regex.test(name);
    } catch (error) {
      return error instanceof Error ? error.message : "no regular expression";
    }
  }
  const small = text.toLowerCase();
  return (name) => name.toLowerCase().includes(small);
}

/** Marks methods by name. */
export function markMethods(names: readonly string[], matches: (name: string) => boolean): Uint8Array {
  return Uint8Array.from(names, (name) => (matches(name) ? 1 : 0));
}

export interface Coverage {
  /** Cost of all calls of marked methods, calls in such calls counted once. */
  readonly cost: number;
  /** Number of contexts that match. */
  readonly nodes: number;
}

/** What marked methods cost together. */
export function coverageOf(tree: CallTree, value: number, marked: Uint8Array): Coverage {
  let cost = 0;
  let nodes = 0;
  let covered = 0;
  for (let node = 1; node < tree.method.length; node++) {
    if (marked[tree.method[node]!] !== 1) continue;
    nodes++;
    if (node < covered) continue;
    cost += tree.total[value]![node]!;
    covered = tree.end[node]!;
  }
  return { cost, nodes };
}

/** The nodes at which a call sequence ends: where its methods follow each other, the last one innermost. */
export function endsOfSequence(tree: CallTree, path: readonly number[]): number[] {
  const ends: number[] = [];
  if (path.length === 0) return ends;
  for (let node = 1; node < tree.method.length; node++) {
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

/** What subtrees cost together: a node below another one of them counts once. `nodes` ascend. */
export function costOfNodes(tree: CallTree, value: number, nodes: Iterable<number>): number {
  let cost = 0;
  let covered = 0;
  for (const node of nodes) {
    if (node < covered) continue;
    cost += tree.total[value]![node]!;
    covered = tree.end[node]!;
  }
  return cost;
}

export interface Extension {
  readonly method: number;
  readonly cost: number;
}

/** How a call sequence goes on: by one caller above it, or by one callee below it, the dearest first. */
export function extensionsOf(tree: CallTree, value: number, path: readonly number[], where: "above" | "below"): Extension[] {
  const nodes = new Map<number, number[]>();
  const put = (method: number, node: number) => {
    const known = nodes.get(method);
    if (known) known.push(node);
    else nodes.set(method, [node]);
  };
  for (const end of endsOfSequence(tree, path)) {
    if (where === "below") {
      for (let child = end + 1; child < tree.end[end]!; child = tree.end[child]!) put(tree.method[child]!, child);
      continue;
    }
    let top = end;
    for (let step = path.length; step > 0; step--) top = tree.parent[top]!;
    if (top > 0) put(tree.method[top]!, end);
  }
  const extensions = [...nodes].map(([method, list]) => ({ method, cost: costOfNodes(tree, value, list.sort((a, b) => a - b)) }));
  return extensions.sort((a, b) => b.cost - a.cost || a.method - b.method);
}

/** Costs of call sequences shown together: of each what it has, and what none before it has. */
export function overlapOf(tree: CallTree, value: number, sequences: readonly (readonly number[])[]): { cost: number; added: number }[] {
  const seen = new Set<number>();
  let before = 0;
  return sequences.map((path) => {
    const ends = endsOfSequence(tree, path);
    for (const end of ends) seen.add(end);
    const together = costOfNodes(tree, value, [...seen].sort((a, b) => a - b));
    const added = together - before;
    before = together;
    return { cost: costOfNodes(tree, value, ends), added };
  });
}
