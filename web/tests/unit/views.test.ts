import { describe, expect, it } from "vitest";
import { cameraOf, formatView, heldCamera, layoutOf, parseView, zoomedCamera } from "../../src/charts/layout";
import { askedGroups } from "../../src/model/asked";
import { blockFacts, drawnBlocks, linesOf, mainFile, procedureOfLine, samplesByLine } from "../../src/model/code";
import { type Procedure, SCHEMA, readPage, treeOfThreads } from "../../src/model/data";
import { causalPrograms, chosenResult, lineNamed } from "../../src/model/causal";
import { hottestLine, lineToChange } from "../../src/model/claims";
import { axisOf, comparisonBetween, comparisonsOf, judgementOf, leastChange } from "../../src/model/differences";
import { wakeGraph } from "../../src/model/interference";
import { findAll } from "../../src/model/finder";
import { languageOf } from "../../src/model/languages";
import { pathThrough, placeGraph } from "../../src/model/layered";
import { shortPaths } from "../../src/model/format";
import { epochsByHost, rateOf } from "../../src/model/machine";
import { rangeBetween, runningScale, spreadBack, sumOf, threadTimes, wakesIn } from "../../src/model/timeline";
import { inTimeOrder, withoutMethods } from "../../src/model/transforms";
import { childrenOf } from "../../src/model/tree";

/** Two threads in three slices of 100 ms: `a` runs in the first, `b` in the others. */
const timed = readPage(
  JSON.stringify({
    schema: SCHEMA,
    profiles: [
      {
        name: "t",
        format: "f",
        notes: [],
        default_value: 0,
        values: [
          { name: "cpu-clock", unit: "samples", per_second: 1000 },
          { name: "off-cpu", unit: "nanoseconds" },
        ],
        methods: {
          name: ["one (1)", "two (2)", "0", "1", "2", "a", "b"],
          module: [0, 0, 1, 1, 1, 2, 2],
          modules: ["[thread]", "[slice]", "app"],
          inlined: [6],
        },
        tree: {
          depth: [1, 2, 3, 2, 3, 4, 1, 2, 3],
          method: [0, 2, 5, 4, 5, 6, 1, 3, 6],
          cost: [
            [0, 0, 0, 50, 0, 10, 20, 0, 0, 100],
            [0, 0, 0, 0, 0, 250e6, 0, 0, 0, 0],
          ],
        },
        timeline: { slice_ns: 100e6, slices: 3 },
        wakes: {
          names: ["one (1)", "two (2)"],
          slice: [2, 1],
          thread: [0, 0],
          waker: [1, 1],
          value: [1, 1],
          ns: [250e6, 7],
        },
      },
    ],
  }),
).profiles[0]!;

describe("names of profiles", () => {
  it("are as short as they can be told apart", () => {
    expect(shortPaths(["/a/one.vf", "/b/two.vf", "/c/db/", "/c/two.vf"])).toEqual([
      "one.vf",
      "/b/two.vf",
      "db",
      "/c/two.vf",
    ]);
  });
});

describe("a time axis", () => {
  it("says when threads ran and were blocked: a wait ends in its slice, and was going on before", () => {
    const threads = threadTimes(timed);
    expect(threads.map((one) => one.name)).toEqual(["two (2)", "one (1)"]);
    expect([...threads[1]!.running]).toEqual([50e6, 0, 30e6]);
    expect([...threads[1]!.blocked]).toEqual([50e6, 100e6, 100e6]);
    expect(sumOf(threads[1]!.running, [1, 3])).toBe(30e6);
    expect([...spreadBack(Float64Array.of(0, 5, 25), 10)]).toEqual([10, 10, 10]);
  });

  it("says when threads of other tools' profiles ran: by measured time, or else by where most samples are", () => {
    const foreign = (values: readonly object[], modules: readonly string[], depth: readonly number[]) =>
      readPage(
        JSON.stringify({
          schema: SCHEMA,
          profiles: [
            {
              name: "t",
              format: "JFR",
              notes: [],
              default_value: 0,
              values,
              methods: { name: ["main", "0", "1", "a"], module: [0, 1, 1, 2], modules },
              tree: {
                depth,
                method: depth.length === 5 ? [0, 1, 3, 2, 3] : [1, 3, 2, 3],
                cost: [
                  depth.length === 5 ? [0, 0, 0, 10, 0, 20] : [0, 0, 10, 0, 20],
                  depth.length === 5 ? [0, 0, 0, 0, 0, 150e6] : [0, 0, 0, 0, 150e6],
                ],
              },
              timeline: { slice_ns: 100e6, slices: 2 },
            },
          ],
        }),
      ).profiles[0]!;
    const samples = { name: "samples", unit: "samples" };
    const java = foreign(
      [samples, { name: "park", unit: "nanoseconds" }],
      ["[thread]", "[slice]", ""],
      [1, 2, 3, 2, 3],
    );
    const [main] = threadTimes(java);
    expect([runningScale(java).relative, [...main!.running], [...main!.blocked]]).toEqual([
      true,
      [50e6, 100e6],
      [50e6, 100e6],
    ]);
    const evented = foreign(
      [
        { name: "time", unit: "nanoseconds" },
        { name: "cpu", unit: "nanoseconds" },
      ],
      ["", "[slice]", ""],
      [1, 2, 1, 2],
    );
    expect([runningScale(evented).relative, threadTimes(evented).map((one) => [one.name, ...one.running])]).toEqual([
      false,
      [["all threads", 10, 20]],
    ]);
  });

  it("filters trees by a range, and the parts add up to the whole", () => {
    const cost = (range: readonly [number, number] | null, thread: number | null = null) =>
      treeOfThreads(timed, thread, range).total[0]![0];
    expect(cost(null)).toBe(180);
    expect([cost([0, 1]), cost([1, 3]), cost([0, 3])]).toEqual([50, 130, 180]);
    expect(cost([0, 2], 1)).toBe(100);
    const tree = treeOfThreads(timed, null, [1, 2]);
    expect(childrenOf(tree, 0).map((node) => timed.names[tree.method[node]!])).toEqual(["b"]);
  });

  it("puts slices in their order, whatever they cost", () => {
    const tree = inTimeOrder(timed, null, null);
    expect(childrenOf(tree, 0).map((node) => timed.names[tree.method[node]!])).toEqual(["0", "1", "2"]);
    expect(inTimeOrder(timed, 0, [1, 3]).total[0]![0]).toBe(30);
  });

  it("says who woke whom in a range", () => {
    expect(wakesIn(timed.wakes, [1, 2])).toEqual([{ thread: "one (1)", waker: "two (2)", ns: 7 }]);
    expect(wakesIn(timed.wakes, null)[0]!.ns).toBe(250e6 + 7);
    expect(wakesIn(timed.wakes, null, "two (2)")).toEqual([]);
    expect(wakeGraph(timed.wakes!).edges.map((edge) => [edge.from, edge.to])).toEqual([["one (1)", "two"]]);
    expect(rangeBetween(2, 0, 3)).toEqual([0, 3]);
  });

  it("leaves out calls that are always inlined, and their cost is their caller's", () => {
    const tree = withoutMethods(treeOfThreads(timed, 0), timed.names.length, new Set(timed.inlined));
    expect([tree.method.length, tree.own[0]![1]]).toEqual([2, 80]);
  });
});

const procedure: Procedure = {
  name: "f",
  image: "/app",
  model: "m",
  frequencies: "counts",
  cycles_per_sample: 1,
  misses_edges: false,
  samples: 100,
  files: ["/a.h", "/a.c"],
  blocks: { first: [0, 2], end: [2, 3], frequency: [10, null], confidence: ["high", null], doubt: [null, "no scale"] },
  edges: { from: [null, 0, 0], to: [0, 1, 0], kind: ["Entry", "Fall", "Taken"], frequency: [1, 1, 9] },
  instructions: {
    address: [16, 20, 24],
    text: ["mov", "div", "ret"],
    samples: [10, 80, 10],
    file: [1, 1, 0],
    line: [5, 6, 9],
    cycles: [1, 8, null],
    best: [1, 2, 1],
    stall: [0, 6, null],
    culprits: [[], [{ cause: "Divider", letter: "u", at: [1], most: 9 }], []],
  },
};

describe("code", () => {
  it("adds up by line and by block", () => {
    expect(samplesByLine(procedure)).toEqual(
      new Map([
        ["1:5", 10],
        ["1:6", 80],
        ["0:9", 10],
      ]),
    );
    expect([mainFile(procedure), linesOf(procedure, 1)]).toEqual([1, [5, 6]]);
    expect(blockFacts(procedure, 0)).toEqual({ samples: 90, instructions: 2, often: 1, cpi: 4.5, best: 1.5 });
    expect(blockFacts(procedure, 1).cpi).toBeNull();
    expect([drawnBlocks(procedure, 1), drawnBlocks(procedure, 2)]).toEqual([[0], [0, 1]]);
    expect([procedureOfLine([procedure], "/a.c", 6), procedureOfLine([procedure], "/b.c", 6)]).toEqual([0, -1]);
  });

  it("is laid out in layers", () => {
    const node = (id: string) => ({ id, lines: [id], heat: 0 });
    const placed = placeGraph(
      [node("a"), node("b")],
      [
        { from: "a", to: "b", label: "1 %", weight: 1 },
        { from: "b", to: "b", label: "", weight: 0 },
        { from: "a", to: "gone", label: "", weight: 0 },
      ],
    );
    expect(placed.nodes[0]!.y).toBeLessThan(placed.nodes[1]!.y);
    expect(placed.edges.length).toBe(2);
    expect(pathThrough(placed.edges[0]!.points)).toMatch(/^M[\d.]+,[\d.]+ .*L/);
    expect(pathThrough([])).toBe("");
  });
});

describe("a camera", () => {
  it("stays over what is under the pointer, sees nothing beside the frame, and is in the address", () => {
    const layout = layoutOf(treeOfThreads(timed, null), [0]);
    const whole = cameraOf(layout, 0, 100);
    const near = heldCamera(layout, 0, zoomedCamera(whole, 25, 4), 100);
    expect(near.left + 25 / near.scale).toBeCloseTo(25 / whole.scale);
    const back = parseView(layout, 0, formatView(layout, 0, near, 100), 100);
    expect([back.left, back.scale].map((one) => one.toFixed(3))).toEqual(
      [near.left, near.scale].map((one) => one.toFixed(3)),
    );
    expect(heldCamera(layout, 0, { left: -50, scale: 0.001 }, 100)).toEqual(whole);
    expect([formatView(layout, 0, whole, 100), parseView(layout, 0, "nonsense", 100)]).toEqual(["", whole]);
  });
});

it("guesses languages", () => {
  const of = (name: string, module = "app") => languageOf(name, module);
  expect([
    of("main"),
    of("std::sort(int*)"),
    of("core::fmt::write"),
    of("runtime.mallocgc"),
    of("work", "app.py"),
    of("tcp_ack", "[kernel]"),
    of("<a as b>::next"),
    of("app::run::{{closure}}"),
    of("x", "[unknown]"),
  ]).toEqual(["C and others", "C++", "Rust", "Go", "Python", "kernel", "Rust", "Rust", "C and others"]);
});

it("orders epochs by host and time", () => {
  const hosts = epochsByHost([
    {
      schema: "vitalfew.epochs/1",
      epochs: [
        { epoch: "2", open: true, host: "h", start_unix_ns: 2, duration_ns: 1e9, samples: 10, lost: 1, bytes: 5 },
        { epoch: "1", open: false, host: "h", start_unix_ns: 1, duration_ns: 1e9, samples: 30, bytes: 5 },
        { epoch: "x", open: false, error: "damaged" },
      ],
    },
  ]);
  expect(hosts.map((host) => [host.host, host.epochs.map((one) => one.epoch), host.samples, host.lost])).toEqual([
    ["h", ["1", "2"], 40, 1],
    ["unreadable", ["x"], 0, 0],
  ]);
  expect([rateOf(hosts[0]!.epochs[0]!), rateOf(hosts[1]!.epochs[0]!)]).toEqual([30, 0]);
});

it("finds everything by name", () => {
  const page = {
    madeBy: "",
    live: false,
    profiles: [timed],
    notRead: [],
    results: [{ schema: "x", claims: { list: [{ sentence: "b has all" } as never] } }],
  };
  const hits = (text: string) =>
    findAll(page, timed, null, [["flame", "Flame graph"]], text).map((hit) => [hit.kind, hit.text]);
  expect(hits("")).toEqual([["View", "Flame graph"]]);
  expect(hits("b")).toEqual([
    ["Finding", "b has all"],
    ["Procedure", "b"],
  ]);
  expect(hits("TWO")).toEqual([["Thread", "two (2)"]]);
  expect(hits("nothing")).toEqual([]);
});

describe("what was asked", () => {
  const asked = [
    { method: "sampling", had: "2326 samples", why_not: null },
    { method: "interference", had: null, why_not: "one thread does the work" },
    { method: "experiments", had: "0 in 1 runs", why_not: "too little time" },
    { method: "instructions", had: null, why_not: null },
  ];
  const run = { schema: "vitalfew.run/2", target: { command: ["./app"] }, asked };

  it("is said with the reason that run gives, and what to type only where there is none", () => {
    const [group] = askedGroups({ results: [run], profiles: [] });
    expect(group!.about).toBe("./app");
    expect(group!.methods.map(({ state, had, why, type }) => [state, had, why, type])).toEqual([
      ["asked", "2326 samples", "", ""],
      ["not asked", "", "one thread does the work", ""],
      ["no answer", "0 in 1 runs", "too little time", ""],
      ["not asked", "", "", "vitalfew annotate"],
    ]);
    const alone = askedGroups({
      results: [run, { schema: "vitalfew.interference/2", command: ["./app"] }],
      profiles: [],
    });
    expect(alone[0]!.methods[1]!.state).toBe("asked");
  });

  it("is taken from what is in the page without a run", () => {
    const [group] = askedGroups({
      results: [{ schema: "vitalfew.causal/1", experiments: 1500, claims: { list: [] } }],
      profiles: [],
    });
    expect(group!.methods.map(({ state, had }) => [state, had])).toEqual([
      ["not asked", ""],
      ["not asked", ""],
      ["no answer", "1,500 experiments"],
      ["not asked", ""],
    ]);
    expect(group!.methods[0]!.type).toContain("vitalfew record");
  });
});

describe("differences", () => {
  const row = { name: "f", a: 1, b: 3, change: 2, low: 1, high: 3, q: 0.01, differs: true };
  const rows = [
    row,
    { ...row, name: "g", change: -4, low: -9, high: 1, q: 0.4, differs: false },
    { ...row, name: "h", q: null, differs: false },
  ];
  const comparisons = comparisonsOf([
    {
      schema: "vitalfew.diff/1",
      per: "run",
      amount_unit: "nanoseconds",
      sets: ["a", "b"],
      rows,
      rows_total: 3,
      common: { estimate: 1.5, low: 1, high: 2 },
    },
    { schema: "vitalfew.diff/1", sets: ["a", "c"], why_not: "no such event" },
  ]);

  it("are found for two files in either order, and say why not", () => {
    expect(comparisonBetween(comparisons, "b", "a")?.common).toEqual([1.5, 1, 2]);
    expect(comparisonBetween(comparisons, "a", "c")?.why).toBe("no such event");
    expect([comparisonBetween(comparisons, "b", "c"), comparisonBetween(comparisons, "a", "a")]).toEqual([null, null]);
  });

  it("are judged by the test, not by their size", () => {
    expect(rows.map(judgementOf)).toEqual(["more", "within chance", "not tested"]);
    expect(rows.map(leastChange)).toEqual([1, 0, 1]);
    expect([axisOf(rows), axisOf(rows.slice(1, 2)), axisOf([])]).toEqual([3, 6, 0]);
  });
});

describe("causal profiles", () => {
  const one = (files: readonly string[], command = "./app") => ({
    schema: "vitalfew.causal/1",
    files,
    runs: [{ command: [command] }],
  });
  it("are shown together by program, and without those that are switched off", () => {
    const programs = causalPrograms([
      one(["a", "b"]),
      one(["b"]),
      one(["a"]),
      one(["c"], "./other"),
      { schema: "vitalfew.causal/1" },
    ]);
    expect(programs.map(({ files }) => files)).toEqual([["a", "b"], ["c"], []]);
    expect(chosenResult(programs[0]!, ["a"])).toEqual(one(["a"]));
    expect(chosenResult(programs[0]!, [])).toBeNull();
    expect(chosenResult(programs[2]!, [])).not.toBeNull();
  });

  it("have the text of their lines", () => {
    const lines = {
      files: ["/src/app.c"],
      file: [0],
      line: [8],
      function: ["f"],
      images: ["app"],
      image: [0],
      own: [1],
      total: [1],
      sources: [{ file: 0, first: 7, text: ["a", "b"] }],
    };
    expect(lineNamed([{}, { lines }], [0, 1], "app.c:8")).toMatchObject({
      path: "/src/app.c",
      offset: 1,
      profile: 1,
      row: 0,
    });
    expect(["app.c:9", "p.c:8", "main"].map((name) => lineNamed([{ lines }], [0], name))).toEqual([null, null, null]);
    expect(lineNamed([{ lines }, {}], [1], "app.c:8")).toBeNull();
  });
});

describe("findings", () => {
  it("lead to the hottest line", () => {
    const lines = {
      files: ["/a.c"],
      file: [0, 0, 0],
      line: [3, 9, 5],
      function: ["g", "f", "f"],
      images: ["app", "other"],
      image: [0, 0, 1],
      own: [2, 1, 9],
      total: [2, 1, 9],
      sources: [],
    };
    const methods = { names: ["f", "h", "f"], module: [0, 0, 1], modules: ["app", "other"] };
    expect([0, 1, 2].map((method) => hottestLine({ lines, ...methods }, method))).toEqual([1, -1, 2]);
    expect(hottestLine(methods, 0)).toBe(-1);
  });
});

describe("the line to change", () => {
  const lines = {
    files: ["/usr/include/c++/12/string.h", "src/app.cc"],
    file: [0, 1, 1, 1],
    line: [9, 20, 21, 40],
    function: ["copy", "keep", "keep", "main"],
    images: ["app"],
    image: [0, 0, 0, 0],
    own: [50, 1, 2, 0],
    total: [50, 3, 60, 70],
    sources: [],
  };
  const claim = (path: string[], ...evidence: Record<string, unknown>[]) => ({
    place: { what: { kind: "call_path", path } },
    evidence,
  });
  it("is of the program's own code, the innermost", () => {
    const methods = { names: ["main", "keep", "copy", "stripped"], module: [0, 0, 0, 0], modules: ["app"] };
    const row = (...given: Parameters<typeof claim>) =>
      lineToChange(
        { lines, ...methods },
        claim(...given),
        given[0].map((name) => methods.names.indexOf(name)),
      );
    expect(row(["main", "keep", "copy"])).toBe(2);
    expect(row(["copy"])).toBe(0);
    expect(row(["copy"], { kind: "on_behalf_of", function: "keep", part: 0.9 })).toBe(2);
    expect(row(["copy"], { kind: "dear_line", line: "app.cc:20", part: 0.5 })).toBe(1);
    expect(row(["copy"], { kind: "dear_line", line: "string.h:9", part: 0.5 })).toBe(0);
    expect(row(["main"])).toBe(3);
    expect(row(["gone"])).toBe(-1);
    // Callers in libraries are those of other programs, too.
    expect(row(["copy", "stripped"])).toBe(-1);
  });
});
