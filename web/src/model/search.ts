/** Searches by name: what matches, and what that costs, overlap counted once. */
import type { CallTree } from "./tree";

/**
 * Compiles what was typed: /regex/ between slashes, else a part of the name. Null: matches nothing;
 * a string says why.
 */
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

/** Marks the method `only` among `methods` methods. */
export function markMethod(methods: number, only: number): Uint8Array {
  return new Uint8Array(methods).fill(1, only, only + 1);
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
