import { describe, expect, it } from "vitest";
import { type TracedFunction, lossRows, waitGraph, waitRows, wordsOf } from "../../src/model/interference";

const loss = (estimate: number, is_claimed = true) => ({
  share: 0.5,
  loss: { estimate, low: estimate - 0.05, high: estimate + 0.05 },
  is_claimed,
});
const traced = (name: string, more: Partial<TracedFunction>) =>
  ({ name, loss: null, locks: [], cause: null, waits: [], ...more }) as unknown as TracedFunction;
const waits = (kind: string, ns: number, ...ended_by: TracedFunction["waits"][number]["ended_by"]) => ({
  kind,
  ns,
  waits: 3,
  ended_by,
});

it("has the words of the file, else the names of its data", () => {
  const words = {
    verdict: "one thread is busy",
    machine: ["m"],
    contention: null,
    causes: ["c"],
    waits: { lock: "l" },
  };
  const old = { solo: { verdict: "not_found" }, functions: [traced("a", { cause: "lock" }), traced("b", {})] };
  expect(wordsOf({ ...old, words })).toBe(words);
  const raw = wordsOf(old);
  expect(raw.verdict).toMatch(/^not_found \(an earlier vitalfew/);
  expect([raw.causes, raw.machine, raw.contention]).toEqual([["lock", "not known"], [], null]);
});

describe("functions", () => {
  const functions = [
    traced("lock", {
      cause: "lock",
      loss: loss(0.4),
      locks: [
        { address: 0x7f10, ...loss(0.3) },
        { address: 0x7f20, ...loss(0.01, false) },
      ],
      waits: [
        waits("lock", 50, { function: "unlock", ns: 40, thread: "a (1)" }, { function: null, ns: 0, thread: null }),
        waits("sleep", 900),
        waits("disk", 1),
      ],
    }),
    traced("share", { loss: loss(0.2) }),
    traced("even", { loss: loss(0.01, false) }),
    traced("join", { waits: [waits("pool", 300, { function: null, ns: 300, thread: "b (2)" })] }),
    traced("accept", { waits: [waits("pool", 800)] }),
  ];

  it("lose time if the command says so, each followed by its locks", () => {
    expect(
      lossRows(functions, { causes: ["lock contention"] }).map(({ of, lock, cause }) => [of.name + lock, cause]),
    ).toEqual([
      ["lock", "lock contention"],
      ["lock, lock 0x7f10", "lock contention"],
      ["share", "not known"],
    ]);
  });

  it("wait for what they did not ask to wait for", () => {
    const rows = waitRows({ functions, thread_time_ns: 1000 });
    expect(rows.map(({ of, kind, part }) => [of.name, kind, part])).toEqual([
      ["join", "pool", 0.3],
      ["lock", "lock", 0.05],
    ]);
  });

  it("are drawn with those that end their waits", () => {
    expect(waitGraph(functions).edges.map((edge) => [edge.from, edge.to, edge.label])).toEqual([
      ["join", "thread b (2)", "300\u00a0ns"],
      ["lock", "unlock", "40\u00a0ns"],
    ]);
  });
});
