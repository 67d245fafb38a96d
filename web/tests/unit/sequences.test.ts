import { describe, expect, it } from "vitest";
import { formatLabels, formatSteps, parseLabels, parseSteps, pathOfSteps, stepNames } from "../../src/model/labels";
import { procedureCosts } from "../../src/model/procedures";
import {
  endsOfSequence,
  extensionsOf,
  newCum,
  overlapOf,
  sequenceOf,
  totalOf,
  trimmed,
  zoomed,
} from "../../src/model/sequences";
import { suggestedSequences } from "../../src/model/suggest";
import { treeOf } from "./folded";

const RECURSIVE = "a;b;c 5\na;b;b;c 2\na;b 1\nd;b;a;b 4\nd 3\na 2";
const { tree, names } = treeOf(RECURSIVE);
const of = (text: string) =>
  sequenceOf(
    tree,
    0,
    [...text].map((name) => names.indexOf(name)),
  )!;
const text = (path: readonly number[]) => path.map((method) => names[method]).join("");

describe("call sequences", () => {
  it("cost what is along them and below them, each node once", () => {
    expect(endsOfSequence(tree, of("ab").path)).toHaveLength(2);
    expect([of("ab").base, of("ab").cum]).toEqual([2 + 1 + 4, 14]);
    expect([of("b").base, of("b").cum]).toEqual([5, 12]);
    expect([of("bb").base, of("bb").cum]).toEqual([1, 3]);
    expect(sequenceOf(tree, 0, [names.indexOf("c"), names.indexOf("a")])).toBeNull();
    expect(totalOf(tree, 0, [of("bb"), of("bc")]).cum).toBe(1 + 5 + 2);
  });
  it("are made longer by callers and callees", () => {
    expect(extensionsOf(tree, 0, of("ab"), "below").map((one) => [text(one.path), one.cum])).toEqual([
      ["abc", 2 + 1 + 5],
      ["abb", 2 + 1 + 2],
    ]);
    expect(extensionsOf(tree, 0, of("ab"), "above").map((one) => [text(one.path), one.cum])).toEqual([["bab", 4]]);
  });
  it("share costs", () => {
    expect(overlapOf(tree, 0, [of("b"), of("a"), of("d")])).toEqual([
      { added: 12, shared: 12 },
      { added: 2, shared: 12 },
      { added: 3, shared: 4 },
    ]);
    expect(newCum(tree, 0, of("d"), [of("a")])).toBe(3);
    expect(newCum(tree, 0, of("d"), [])).toBe(7);
  });
});

describe("zooming", () => {
  const { tree, names } = treeOf("m;p;q;x 40\nm;p;q;y 30\nm;p;q;z 28\nm;p;w 1\nm;v 1");
  const of = (text: string) =>
    sequenceOf(
      tree,
      0,
      [...text].map((name) => names.indexOf(name)),
    )!;
  const shown = (from: string, cutoff: number) => {
    const { through, extensions } = zoomed(tree, 0, of(from), "below", cutoff);
    return [
      through && through.path.map((method) => names[method]).join(""),
      extensions.map((one) => one.path.map((method) => names[method]).join("")),
    ];
  };
  it("goes through what has the cost to itself, up to where it parts", () => {
    expect(shown("m", 0.95)).toEqual(["mpq", ["mpqx", "mpqy", "mpqz"]]);
    expect(shown("m", 0.6)).toEqual(["mpq", ["mpqx", "mpqy"]]);
    expect(shown("mpq", 0.4)).toEqual(["mpqx", []]);
    expect(shown("mpqx", 0.95)).toEqual([null, []]);
  });
  it("stops at recursion", () => {
    const { tree, names } = treeOf("r;r;r;r;r 9\nr 1");
    const { through, extensions } = zoomed(tree, 0, sequenceOf(tree, 0, [names.indexOf("r")])!, "below", 0.9);
    expect([through, extensions]).toEqual([null, []]);
  });
  it("shows the first shorter sequence with notably more cost", () => {
    expect(trimmed(tree, 0, of("mpqx"), "below", 0.95)!.path).toHaveLength(3);
    expect(trimmed(tree, 0, of("mpq"), "below", 0.95)!.path).toHaveLength(1);
    expect(trimmed(tree, 0, of("m"), "below", 0.95)).toBeNull();
  });
});

describe("suggesters", () => {
  const { tree, names } = treeOf("s;m;a;x 40\ns;m;b;x 30\ns;m;b 20\ns;m;c 10");
  const shown = (by: Parameters<typeof suggestedSequences>[3], labelled: string[] = []) => {
    const costs = procedureCosts(tree, 0, names.length);
    return suggestedSequences(
      tree,
      0,
      costs,
      by,
      labelled.map((one) => sequenceOf(tree, 0, [names.indexOf(one)])!),
      3,
    ).map(({ sequence }) => sequence.path.map((method) => names[method]).join(""));
  };
  it("begin above or below, or with what no label has", () => {
    expect(shown("HighCum")).toEqual(["sm", "x", "b"]);
    expect(shown("HighBase")).toEqual(["x", "b", "c"]);
    expect(shown("NewBase", ["x"])).toEqual(["b", "c"]);
    expect(shown("NewCum", ["m"])).toEqual([]);
    expect(shown("NewCum", ["x", "c"])).toEqual(["s", "m", "b"]);
  });
});

describe("labels", () => {
  const profile = {
    names: ["main", "a;b=c|d\\e", "main", "x".repeat(1000), `${"x".repeat(999)}y`, "main"],
    module: [0, 0, 1, 0, 0, 0],
    modules: ["app", "ld.so"],
  };
  const steps = stepNames(profile);
  it("are in the address by names, whatever is in these", () => {
    expect(new Set(steps).size).toBe(steps.length);
    expect(Math.max(...steps.map((one) => one.length))).toBeLessThan(120);
    const keys = new Map(steps.map((step, method) => [step, method]));
    const path = [0, 1, 2, 3, 4];
    expect(pathOfSteps(keys, parseSteps(formatSteps(path.map((method) => steps[method]!))))).toEqual(path);
    const labels = [
      { name: "slow | odd = \\", steps },
      { name: "", steps: ["main"] },
    ];
    expect(parseLabels(formatLabels(labels))).toEqual(labels);
    expect([parseLabels(""), parseLabels("a"), parseLabels("a="), parseSteps("")]).toEqual([[], [], [], []]);
    expect(pathOfSteps(keys, ["gone"])).toBeNull();
  });
});
