import { describe, expect, it } from "vitest";
import { cameraOf, layoutOf, nodeAt, visitVisible } from "../../src/charts/layout";
import { svgOf } from "../../src/charts/save";
import { procedureCosts } from "../../src/model/procedures";
import { compilePattern, coverageOf, markMethods } from "../../src/model/search";
import { byCallee, calleesOf, callersOf, filtered, united, withoutRecursion } from "../../src/model/transforms";
import { treeOfColumns } from "../../src/model/tree";
import { folded, treeOf } from "./folded";

const RECURSIVE = "a;b;c 5\na;b;b;c 2\na;b 1\nd;b;a;b 4\nd 3";

describe("trees", () => {
  it("are refused where they are none", () => {
    expect(() => treeOfColumns([2], [0], [[0, 1]])).toThrow("preorder");
    expect(() => treeOfColumns([1, 3], [0, 0], [[0, 1, 1]])).toThrow("preorder");
    expect(() => treeOfColumns([1], [0], [[1]])).toThrow("lengths");
  });
  it("keep their costs through every transform", () => {
    const { tree, names } = treeOf(RECURSIVE);
    expect(tree.total[0]![0]).toBe(15);
    for (const made of [
      byCallee(tree, names.length),
      withoutRecursion(tree, names.length),
      filtered(
        tree,
        names.length,
        () => true,
        () => true,
      ),
    ])
      expect(made.total[0]![0]).toBe(15);
    expect(
      folded(
        filtered(
          tree,
          names.length,
          (method) => names[method] !== "b",
          () => true,
        ),
        names,
      ),
    ).toEqual(["a 1", "a;c 7", "d 3", "d;a 4"]);
    expect(folded(withoutRecursion(tree, names.length), names)).toEqual(["a;b 1", "a;b;c 7", "d 3", "d;b;a;b 4"]);
  });
  it("are split at a procedure into callers and callees, recursion once", () => {
    const { tree, names } = treeOf(RECURSIVE);
    const b = names.indexOf("b");
    expect(folded(calleesOf(tree, names.length, b), names)).toEqual(["b 1", "b;a;b 4", "b;b;c 2", "b;c 5"]);
    expect(folded(callersOf(tree, names.length, b), names)).toEqual(["b;a 8", "b;d 4"]);
    expect(folded(byCallee(tree, names.length), names)).toContain("c;b;b;a 2");
  });
  it("have the heaviest child first", () => {
    const { tree, names } = treeOf("a;x 1\na;y 9\nz 50");
    const sorted = filtered(
      tree,
      names.length,
      () => true,
      () => true,
    );
    expect([...sorted.method].slice(1).map((method) => names[method])).toEqual(["z", "a", "y", "x"]);
    expect([...sorted.end]).toEqual([5, 2, 5, 4, 5]);
  });
  it("are compared as one with two values", () => {
    const one = treeOf("a;b 10\na;c 10");
    const two = treeOf("a;c 30\na;e 10");
    const names = ["a", "b", "c", "e"];
    const number = (own: string[]) => (method: number) => names.indexOf(own[method]!);
    const both = united(
      [
        [{ tree: one.tree, value: 0, number: number(one.names), scale: 1 }],
        [{ tree: two.tree, value: 0, number: number(two.names), scale: 0.5 }],
      ],
      4,
    );
    expect(folded(both, names, 0)).toEqual(["a;b 10", "a;c 10"]);
    expect(folded(both, names, 1)).toEqual(["a;c 15", "a;e 5"]);
  });
});

describe("costs", () => {
  it("of procedures count recursion once", () => {
    const { tree, names } = treeOf(RECURSIVE);
    const { own, total } = procedureCosts(tree, 0, names.length);
    const of = (name: string) => [own[names.indexOf(name)], total[names.indexOf(name)]];
    expect(of("b")).toEqual([5, 12]);
    expect(of("a")).toEqual([0, 12]);
    expect(of("d")).toEqual([3, 7]);
  });
  it("of a search count overlap once", () => {
    const { tree, names } = treeOf(RECURSIVE);
    const marked = markMethods(names, compilePattern("/^[bc]$/") as (name: string) => boolean);
    expect(coverageOf(tree, 0, marked)).toEqual({ cost: 12, nodes: 6 });
    expect(compilePattern("")).toBeNull();
    expect(typeof compilePattern("/(/")).toBe("string");
  });
});

describe("layout", () => {
  it("places boxes inside their callers' and finds them again", () => {
    const { tree } = treeOf(RECURSIVE);
    const layout = layoutOf(tree, [0]);
    for (let node = 1; node < tree.method.length; node++) {
      const parent = tree.parent[node]!;
      expect(layout.left[node]).toBeGreaterThanOrEqual(layout.left[parent]!);
      expect(layout.left[node]! + layout.width[node]!).toBeLessThanOrEqual(
        layout.left[parent]! + layout.width[parent]!,
      );
      expect(nodeAt(tree, layout, tree.depth[node]!, layout.left[node]! + layout.width[node]! / 2)).toBe(node);
    }
    expect(nodeAt(tree, layout, 1, 99)).toBe(0);
  });
  it("draws what is wide enough, and nothing beside the zoom", () => {
    const { tree } = treeOf("a 1\nb;c 999");
    const layout = layoutOf(tree, [0]);
    const drawn = (zoom: number, pixels: number) => {
      const nodes: number[] = [];
      visitVisible(tree, layout, cameraOf(layout, zoom, pixels), pixels, (node) => nodes.push(node));
      return nodes;
    };
    expect(drawn(0, 100)).toEqual([2, 3]);
    expect(drawn(0, 1000)).toEqual([1, 2, 3]);
    expect(drawn(1, 100)).toEqual([1]);
  });
  it("is saved with names as text", () => {
    const svg = svgOf(100, 20, (emit) => emit(0, 0, 100, 19, "red", "<script>&\u202e"));
    expect(svg).not.toContain("<script>");
    expect(svg).toContain("&#60;script&#62;&#38;\ufffd");
  });
});
