/** Trees of text, and text of trees. */
import { type CallTree, pathOf, treeOfColumns } from "../../src/model/tree";

/** A tree of folded stacks of one-letter methods: `a;b 3`. */
export function treeOf(text: string): { tree: CallTree; names: string[] } {
  interface Node {
    children: Map<string, Node>;
    cost: number;
  }
  const root: Node = { children: new Map(), cost: 0 };
  for (const line of text.trim().split("\n")) {
    const [path, cost] = line.trim().split(" ") as [string, string];
    let node = root;
    for (const name of path.split(";")) {
      if (!node.children.has(name)) node.children.set(name, { children: new Map(), cost: 0 });
      node = node.children.get(name)!;
    }
    node.cost += Number(cost);
  }
  const names: string[] = [];
  const [depth, method, own]: [number[], number[], number[]] = [[], [], [0]];
  const walk = (node: Node, deep: number) => {
    for (const [name, child] of node.children) {
      if (!names.includes(name)) names.push(name);
      depth.push(deep);
      method.push(names.indexOf(name));
      own.push(child.cost);
      walk(child, deep + 1);
    }
  };
  walk(root, 1);
  return { tree: treeOfColumns(depth, method, [own]), names };
}

/** The tree as folded stacks again, by name. */
export function folded(tree: CallTree, names: readonly string[], value = 0): string[] {
  const lines: string[] = [];
  for (let node = 1; node < tree.method.length; node++)
    if (tree.own[value]![node] !== 0)
      lines.push(
        `${pathOf(tree, node)
          .map((method) => names[method])
          .join(";")} ${tree.own[value]![node]}`,
      );
  return lines.sort();
}
