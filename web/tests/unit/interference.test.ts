import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  CAUSE_LABELS,
  type TracedFunction,
  causeText,
  contentionSentence,
  lossRows,
  machineSentences,
  verdictSentence,
  waitGraph,
  waitRows,
} from "../../src/model/interference";

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

it("has the labels of causes that the command has", () => {
  const rust = readFileSync(join(import.meta.dirname, "../../../crates/profile/src/interference.rs"), "utf8");
  const arms = [...rust.matchAll(/Self::(\w+) => "(.+)",/g)].map(([, kind, label]) => [
    kind!.replace(/(?<=.)[A-Z]/g, "_$&").toLowerCase(),
    label,
  ]);
  expect(arms.length).toBeGreaterThan(0);
  expect(CAUSE_LABELS).toEqual(Object.fromEntries(arms));
});

it("names the variable of a shared cache line, as the command does", () => {
  const line = { variable: "counts", is_false: true };
  const says = (more: object) => causeText({ cause: "shared_line", shared_line: { ...line, ...more } });
  expect(says({})).toBe("shared cache line (false sharing): counts");
  expect(says({ variable: null, is_false: false })).toBe("shared cache line: heap memory");
  expect(causeText({ cause: "lock", shared_line: line })).toBe("lock contention");
  expect(causeText({ cause: null })).toBe("not known");
});

it("says the verdict in the words of the command", () => {
  const solo = { verdict: "interference", intervals: 1200, given_up: 3, threads: 1.9, refused: null };
  const program = { loss: { estimate: 0.62, low: 0.57, high: 0.67 } };
  const says = (more: object) => verdictSentence({ ...solo, program, ...more });
  expect(says({})).toBe("2 busy threads: each runs at 38\u00a0% (33 to 43) of the speed that it has alone");
  expect(says({ verdict: "not_found" })).toMatch(/no interference found/);
  expect(says({ verdict: "dependence" })).toMatch(/^2 busy threads that depend/);
  expect(says({ verdict: "one_thread" })).toMatch(/^one thread is busy/);
  expect(says({ verdict: "not_measured" })).toMatch(/\(1,200 intervals, 3 given up\)/);
  expect(says({ verdict: "not_measured", intervals: 0, given_up: 0 })).toMatch(/no thread ran alone$/);
  expect(says({ verdict: "not_measured", refused: "no BPF" })).toBe("interference was not measured: no BPF");
});

it("says what kept threads from CPUs in the words of the command", () => {
  const others = [
    { pid: 7, name: "cc", ns: 30 },
    { pid: 0, name: "other", ns: 10 },
  ];
  const machine = { ready_ns: 320, taken_ns: 200, throttled_ns: 100, others, limit: { group: "/g" } };
  const says = (more: object) => machineSentences({ thread_time_ns: 1000, machine: { ...machine, ...more } });
  expect(says({})).toEqual([
    "run queue: 2\u00a0% of the threads' time, because there are more threads than CPUs",
    "other programs had the CPUs for 20\u00a0% of the threads' time: cc (process 7) 75\u00a0%, other (outside of this container) 25\u00a0%",
    "the control group /g was at its CPU limit for 10\u00a0% of the threads' time",
  ]);
  expect(says({ ready_ns: 200, throttled_ns: 0, limit: null }).length).toBe(1);
});

it("says contention as one loss of several functions", () => {
  const contention = { function: "lock", cause: "lock", functions: 3, ...loss(0.4) };
  expect(contentionSentence({ contention })).toMatch(
    /^lost to lock contention: 40.% .* in lock and 2 other functions$/,
  );
  expect(contentionSentence({ contention: { ...contention, is_claimed: false } })).toBe("");
  expect(contentionSentence({})).toBe("");
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
    expect(lossRows(functions).map(({ of, lock, cause }) => [of.name + lock, cause])).toEqual([
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
