import { describe, expect, it } from "vitest";
import { commonMethods, methodNamed } from "../../src/model/identity";
import { groupedClaims, leastGain, withoutRepeats } from "../../src/model/claims";
import { type Claim, SCHEMA, readPage, treeOfThreads } from "../../src/model/data";
import { amount, commandLine, percent, printable, shortened } from "../../src/model/format";
import { formatRoute, parseRoute } from "../../src/state/route";

const claim = (kind: string, value: number, interval?: [number, number]): Claim => ({
  sentence: kind,
  lines: [],
  doubt_lines: [],
  claim: kind,
  place: { what: { kind: "procedure", name: "f" } },
  evidence: [],
  next: [],
  amount: {
    value,
    relative_to: "profile_total",
    ...(interval ? { interval } : {}),
  },
});

describe("claims", () => {
  it("of other wholes are not compared, and what can be relied on comes first", () => {
    const groups = groupedClaims([
      { schema: "x", profile: "p", claims: { list: [claim("holds_cost", 0.3), claim("holds_cost", 0.2)] } },
      {
        schema: "y",
        claims: {
          list: [
            claim("worth_speedup", 0.5, [-0.1, 0.9]),
            claim("worth_speedup", 0.2, [0.1, 0.3]),
            claim("speedup_unclear", 0.9),
          ],
        },
      },
    ]);
    expect(groups.map((group) => [group.view, group.claims.map((one) => one.amount.value)])).toEqual([
      ["causal", [0.2, 0.5]],
      ["bottlenecks", [0.3, 0.2]],
    ]);
    expect(groups.map((group) => group.rest)).toEqual([null, 0.5]);
  });

  it("are ranked by the virtual speedup's lower bound, or by the amount's bound nearer to 0", () => {
    const sped = { kind: "virtual_speedup", of: "working_time", free: 0.5, interval: [0.4, 0.6] };
    expect([
      leastGain({ ...claim("takes_time", 0.7, [0.6, 0.8]), evidence: [sped] }),
      leastGain({ ...claim("takes_time", 0.7), evidence: [{ ...sped, interval: [-0.2, 0.1] }] }),
      leastGain(claim("holds_cost", 0.7)),
      leastGain(claim("worth_speedup", 0.1, [-0.1, 0.3])),
      leastGain(claim("speedup_hurts", -0.2, [-0.3, -0.1])),
    ]).toEqual([0.4, 0, 0.7, 0, -0.1]);
  });
});

describe("a saved result of `run`", () => {
  it("is shown with the command that it is of, before all else", () => {
    const groups = groupedClaims([
      { schema: "y", claims: { list: [claim("worth_speedup", 0.2, [0.1, 0.3])] } },
      {
        schema: "vitalfew.run/2",
        target: { command: ["./app", "input"] },
        together: 0.75,
        header: "2 s wall: 1.5 s on CPU, 0.5 s idle, 1 thread",
        machine: claim("other programs had the CPU", 0.4),
        claims: { list: [claim("takes_time", 0.6)] },
      },
    ]);
    expect(groups.map((group) => [group.question, group.about, group.rest, group.machine, group.header])).toEqual([
      [
        "What is worth changing",
        "./app input",
        0.25,
        "other programs had the CPU",
        "2 s wall: 1.5 s on CPU, 0.5 s idle, 1 thread",
      ],
      ["What making it faster is worth", "", null, "", ""],
    ]);
  });
});

describe("answers of several methods", () => {
  const facts = (...command: string[]) => ({
    command,
    host: "h",
    cpus: 1,
    start_unix_ns: 0,
    duration_ns: 1,
    collector: "bpf",
    call_graph: "tables",
  });
  it("that `run` has put together already stand apart, of the same command alone", () => {
    const profiles = [
      { name: "app.vf", facts: facts("./app", "input") },
      { name: "other.vf", facts: facts("./other") },
    ];
    const groups = groupedClaims(
      [
        {
          schema: "vitalfew.run/2",
          target: { command: ["./app", "input"] },
          claims: { list: [claim("takes_time", 0.6)] },
        },
        { schema: "b", profile: "app.vf", claims: { list: [claim("holds_cost", 0.3)] } },
        { schema: "b", profile: "other.vf", claims: { list: [claim("holds_cost", 0.2)] } },
      ],
      profiles,
    );
    expect(withoutRepeats(groups, profiles).map((part) => part.map((group) => group.about))).toEqual([
      ["./app input", "other.vf"],
      ["app.vf"],
    ]);
    expect(withoutRepeats(groups.slice(1), profiles)[1]).toEqual([]);
  });

  it("are no findings where two programs are compared, and are where two runs of one are", () => {
    const changed = { schema: "vitalfew.diff/1", sets: ["a.vf", "b.vf"], claims: { list: [claim("changed", 2)] } };
    const of = (...second: string[]) =>
      groupedClaims(
        [changed],
        [
          { name: "a.vf", facts: facts("/old/app", "1") },
          { name: "b.vf", facts: facts(...second) },
        ],
      ).length;
    expect([of("/new/app", "2"), of("./another"), groupedClaims([changed]).length]).toEqual([1, 0, 1]);
  });
});

describe("methods", () => {
  const some = (...all: readonly (readonly [string, string])[]) => {
    const modules = [...new Set(all.map(([, image]) => image))];
    return { names: all.map(([name]) => name), module: all.map(([, image]) => modules.indexOf(image)), modules };
  };
  const a = some(["_start", "app"], ["_start", "ld.so"], ["work", "app"]);
  it("of two profiles are the same by name and image, or as the only ones of their name", () => {
    const { numbers } = commonMethods(
      a,
      some(["_start", "ld.so"], ["work", "app.new"], ["_start", "app"], ["more", "app"]),
    );
    expect(numbers).toEqual([
      [0, 1, 2],
      [1, 2, 0, 3],
    ]);
  });
  it("of one name are told apart by image", () => {
    expect([
      methodNamed(a, "_start", "ld.so"),
      methodNamed(a, "_start"),
      methodNamed(a, "work", "gone"),
      methodNamed(a, "none"),
    ]).toEqual([1, 0, 2, -1]);
  });
});

describe("the address", () => {
  it("says all of what is shown and is read back", () => {
    const route = { view: "flame", params: { q: "a&b=c #1 ü", zoom: "12" } };
    expect(parseRoute(formatRoute(route))).toEqual(route);
    expect(parseRoute("")).toEqual({ view: "findings", params: {} });
    expect(formatRoute({ view: "flame", params: { q: "" } })).toBe("#/flame");
  });
});

describe("data", () => {
  const raw = {
    schema: SCHEMA,
    made_by: "test",
    live: false,
    results: [],
    profiles: [
      {
        name: "p",
        format: "f",
        notes: [],
        values: [{ name: "v", unit: "samples" }],
        default_value: 0,
        methods: { name: ["one (1)", "main", "two (2)"], module: [1, 0, 1], modules: ["", "[thread]"] },
        tree: { depth: [1, 2, 1, 2], method: [0, 1, 2, 1], cost: [[0, 0, 3, 0, 4]] },
      },
    ],
  };
  it("are told apart by thread, and put together without them", () => {
    const profile = readPage(JSON.stringify(raw)).profiles[0]!;
    expect(profile.threads).toEqual([0, 2]);
    expect([...treeOfThreads(profile, null).own[0]!]).toEqual([0, 7]);
    expect([...treeOfThreads(profile, 2).own[0]!]).toEqual([0, 4]);
  });
  it("of another version or out of range are refused with a sentence", () => {
    expect(() => readPage(JSON.stringify({ ...raw, schema: "vitalfew.page/9" }))).toThrow(
      "this page reads vitalfew.page/1",
    );
    const bad = structuredClone(raw);
    bad.profiles[0]!.tree.method[0] = 99;
    expect(() => readPage(JSON.stringify(bad))).toThrow("no method");
  });
});

describe("text", () => {
  it("of numbers has units", () => {
    expect([
      amount(1.5e9, "nanoseconds"),
      amount(12_345, "bytes"),
      amount(1234567, "samples"),
      percent(0.1234),
      percent(0.0123),
    ]).toEqual(["1.50\u00a0s", "12.3\u00a0kB", "1,234,567\u00a0samples", "12.3\u00a0%", "1.23\u00a0%"]);
  });
  it("of names neither steers nor deceives", () => {
    expect(printable("a\u001b[31m\u202eb\n")).toBe("a\ufffd[31m\ufffdb\ufffd");
    expect(shortened("x".repeat(100_000), 50)).toHaveLength(49);
    // What brackets hold goes first.
    const strings =
      "std::vector<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > >::vector(std::vector<int> const&)";
    expect([
      shortened(strings, 80),
      shortened(strings, 200),
      shortened("operator<(int, int)", 10),
      shortened("<Type as Trait<Other>>::call", 26),
    ]).toEqual(["std::vector<…>::vector(…)", strings, "oper…int)", "<Type as Trait<…>>::call"]);
    expect(commandLine(["vitalfew", "a b", "it's"])).toBe("vitalfew 'a b' 'it'\\''s'");
  });
});
