/** Trees made of trees. Each takes one value, or all, of a tree; none changes its argument. */
import type { Profile, Range } from "./data";
import { type CallTree, TreeBuilder } from "./tree";

/**
 * Inverted trees can be larger than what they are made of: past this, what is farther from the root
 * is its caller's cost.
 */
const LARGEST = 2_000_000;

/**
 * The tree without some frames: `keep` says of a method whether it stays, `inside` whether what it
 * calls counts at all.
 */
export function filtered(
  tree: CallTree,
  methods: number,
  keep: (method: number) => boolean,
  inside: (method: number) => boolean,
): CallTree {
  const builder = new TreeBuilder(methods, tree.own.length);
  const place = new Int32Array(tree.method.length);
  for (let node = 0; node < tree.method.length; node++) {
    if (node > 0 && tree.depth[node]! <= 2 && !inside(tree.method[node]!)) {
      node = tree.end[node]! - 1;
      continue;
    }
    const above = place[tree.parent[node]!]!;
    place[node] = node > 0 && keep(tree.method[node]!) ? builder.child(above, tree.method[node]!) : above;
    tree.own.forEach((own, value) => {
      if (own[node] !== 0) builder.add(place[node]!, value, own[node]!);
    });
  }
  return builder.finish();
}

/**
 * The stacks of each slice of time one after the other, without the frames of threads: across is
 * time, as far as there was cost.
 */
export function inTimeOrder(
  profile: Pick<Profile, "byThread" | "names" | "slice" | "threads">,
  thread: number | null,
  range: Range | null,
): CallTree {
  const { byThread: tree, slice } = profile;
  const threads = new Set(profile.threads);
  const tops: number[] = [];
  for (let node = 1; node < tree.method.length; node++) {
    const method = tree.method[node]!;
    const at = slice[method]!;
    if (tree.depth[node] === 1 && threads.has(method) && thread !== null && method !== thread)
      node = tree.end[node]! - 1;
    else if (at >= 0) {
      if (!range || (at >= range[0] && at < range[1])) tops.push(node);
      node = tree.end[node]! - 1;
    }
  }
  tops.sort((a, b) => slice[tree.method[a]!]! - slice[tree.method[b]!]! || a - b);
  const builder = new TreeBuilder(profile.names.length, tree.own.length);
  const place = new Int32Array(tree.method.length);
  for (const top of tops) {
    for (let node = top; node < tree.end[top]!; node++) {
      place[node] = builder.child(node === top ? 0 : place[tree.parent[node]!]!, tree.method[node]!);
      tree.own.forEach((own, value) => {
        if (own[node] !== 0) builder.add(place[node]!, value, own[node]!);
      });
    }
  }
  return builder.finish(true);
}

/** The tree without frames of some methods: what they cost is their caller's. */
export function withoutMethods(tree: CallTree, methods: number, hidden: ReadonlySet<number>): CallTree {
  return filtered(
    tree,
    methods,
    (method) => !hidden.has(method),
    () => true,
  );
}

/** Direct recursion as one call: a method that calls itself is not deeper for it. */
export function withoutRecursion(tree: CallTree, methods: number): CallTree {
  const builder = new TreeBuilder(methods, tree.own.length);
  const place = new Int32Array(tree.method.length);
  for (let node = 0; node < tree.method.length; node++) {
    if (node > 0) {
      const above = tree.parent[node]!;
      const again = above > 0 && tree.method[above] === tree.method[node];
      place[node] = again ? place[above]! : builder.child(place[above]!, tree.method[node]!);
    }
    tree.own.forEach((own, value) => {
      if (own[node] !== 0) builder.add(place[node]!, value, own[node]!);
    });
  }
  return builder.finish();
}

/** What a method calls: its outermost calls as one, so that recursion counts once. */
export function calleesOf(tree: CallTree, methods: number, method: number): CallTree {
  const builder = new TreeBuilder(methods, tree.own.length);
  const place = new Int32Array(tree.method.length);
  for (let node = 1; node < tree.method.length; node++) {
    if (tree.method[node] !== method) continue;
    const stop = tree.end[node]!;
    place[node] = builder.child(0, method);
    for (let at = node; at < stop; at++) {
      if (at > node) place[at] = builder.child(place[tree.parent[at]!]!, tree.method[at]!);
      tree.own.forEach((own, value) => {
        if (own[at] !== 0) builder.add(place[at]!, value, own[at]!);
      });
    }
    node = stop - 1;
  }
  return builder.finish();
}

/** The callers of a method: its outermost calls with all their cost, their callers below them. */
export function callersOf(tree: CallTree, methods: number, method: number): CallTree {
  const builder = new TreeBuilder(methods, tree.own.length, LARGEST);
  for (let node = 1; node < tree.method.length; node++) {
    if (tree.method[node] !== method) continue;
    const place = invert(builder, tree, node);
    tree.total.forEach((total, value) => builder.add(place, value, total[node]!));
    node = tree.end[node]! - 1;
  }
  return builder.finish();
}

/** All costs by the method that they arose in, its callers below it. */
export function byCallee(tree: CallTree, methods: number): CallTree {
  const builder = new TreeBuilder(methods, tree.own.length, LARGEST);
  for (let node = 1; node < tree.method.length; node++) {
    if (tree.own.every((own) => own[node] === 0)) continue;
    const place = invert(builder, tree, node);
    tree.own.forEach((own, value) => builder.add(place, value, own[node]!));
  }
  return builder.finish();
}

function invert(builder: TreeBuilder, tree: CallTree, node: number): number {
  let place = 0;
  for (let at = node; at > 0; at = tree.parent[at]!) place = builder.child(place, tree.method[at]!);
  return place;
}

/**
 * What becomes part of a tree: one value of another one, scaled. `number` gives methods common
 * numbers.
 */
export interface TreePart {
  readonly tree: CallTree;
  readonly value: number;
  readonly number: (method: number) => number;
  readonly scale: number;
}

/** The trees of each side as one tree, with a value for each side. */
export function united(sides: readonly (readonly TreePart[])[], methods: number): CallTree {
  const builder = new TreeBuilder(methods, sides.length);
  sides.forEach((parts, side) => {
    for (const { tree, value, number, scale } of parts) {
      const place = new Int32Array(tree.method.length);
      for (let node = 0; node < tree.method.length; node++) {
        if (node > 0) place[node] = builder.child(place[tree.parent[node]!]!, number(tree.method[node]!));
        if (tree.own[value]![node] !== 0) builder.add(place[node]!, side, tree.own[value]![node]! * scale);
      }
    }
  });
  return builder.finish();
}
