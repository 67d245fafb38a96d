import { describe, expect, it } from "vitest";
import { comparisonOfRuns, StudentT, discoveryRates, formatSides, meanChange, parseSides } from "../../src/model/sets";

describe("sets of recordings", () => {
  it("stand in the address", () => {
    expect(parseSides("AB-A", 4)).toEqual([[0, 3], [1]]);
    expect(formatSides([[0, 3], [1]], 4)).toBe("AB-A");
    expect([parseSides("", 2), parseSides("AA", 2), parseSides("x", 2), parseSides("--AB", 2)]).toEqual([
      null,
      [[0, 1], []],
      [[], []],
      [[], []],
    ]);
  });

  it("have the tails of Student's t, as tables have them", () => {
    for (const [df, t] of [
      [1, 12.706],
      [2, 4.303],
      [4.5, 2.66],
      [8, 2.306],
      [30, 2.042],
      [200, 1.972],
    ] as const) {
      expect(new StudentT(df).tails(t)).toBeCloseTo(0.05, 3);
      expect(new StudentT(df).critical()).toBeCloseTo(t, 2);
    }
    expect(new StudentT(1).tails(3)).toBeCloseTo(1 - (2 / Math.PI) * Math.atan(3), 6);
    expect(new StudentT(8).tails(40)).toBeGreaterThan(0);
  });

  it("have intervals that hold the truth as often as they say, and alike ones differ seldom", () => {
    let seed = 1;
    const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
    const runs = (count: number, make: () => number) => Array.from({ length: count }, make);
    // Of one machine, which is slow now and then; of two lengths.
    const run = () => 10 + random() + random() + (random() < 0.2 ? random() : 0);
    let [inside, differ] = [0, 0];
    for (let turn = 0; turn < 2000; turn++) {
      const change = meanChange(
        runs(4, run),
        runs(6, () => 2 * run()),
      )!;
      const truth = 10 + 1 + 0.1;
      if (change.low <= truth && truth <= change.high) inside++;
      if (meanChange(runs(3, run), runs(5, run))!.p <= 0.05) differ++;
    }
    expect(inside / 2000).toBeGreaterThan(0.92);
    expect(differ / 2000).toBeLessThan(0.07);
  });

  it("are tested row by row, with as few false ones as said", () => {
    expect(discoveryRates([0.01, 0.04, 0.03, 0.5]).map((rate) => Number(rate.toFixed(4)))).toEqual([
      0.04, 0.0533, 0.0533, 0.5,
    ]);
    const run = (grown: number) => ({ own: Float64Array.of(100 + grown, 50, 0.01), whole: 200 });
    const sides = [[0, 1, 2, 3].map(run), [20, 21, 22, 23].map(run)] as const;
    const made = comparisonOfRuns(sides, ["grows", "stays", "small"], {
      event: "cpu-clock",
      unit: "nanoseconds",
      shares: false,
    });
    expect(made.rows.map((row) => [row.name, row.change, row.differs])).toEqual([
      ["grows", 20, true],
      ["stays", 0, false],
    ]);
    expect(comparisonOfRuns([[run(0)], [run(9)]], ["grows"], { event: "", unit: "", shares: true }).why).toContain(
      "two or more",
    );
  });
});
