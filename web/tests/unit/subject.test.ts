import { describe, expect, it } from "vitest";
import { askedGroups } from "../../src/model/asked";
import { type Claim, SCHEMA, readPage } from "../../src/model/data";
import { sequenceOf } from "../../src/model/sequences";
import { callsOf, placeOfClaim, profilesOf } from "../../src/model/subject";
import { withoutOverlap } from "../../src/model/suggest";
import { linkTo, route } from "../../src/state/route";

const factsOf = (...command: string[]) => ({
  command,
  host: "h",
  cpus: 1,
  start_unix_ns: 0,
  duration_ns: 1,
  collector: "bpf",
  call_graph: "tables",
});

/** A profile of programs that each have a `work`, which calls `copy` of the C library. */
const profileOf = (...programs: string[]) => ({
  name: `${programs.join("-")}.vf`,
  format: "f",
  notes: [],
  values: [{ name: "cpu-clock", unit: "samples" }],
  default_value: 0,
  methods: {
    name: [...programs.map(() => "work"), "copy"],
    module: [...programs.keys(), programs.length],
    modules: [...programs, "libc.so.6"],
  },
  tree: {
    depth: programs.flatMap(() => [1, 2]),
    method: programs.flatMap((_, at) => [at, programs.length]),
    cost: [[0, ...programs.flatMap((_, at) => [10, 90 * (at + 1)])]],
  },
  lines: {
    files: programs.map((name) => `/src/${name}.c`),
    file: [...programs.keys()],
    line: programs.map(() => 7),
    function: programs.map(() => "work"),
    images: programs,
    image: [...programs.keys()],
    own: programs.map(() => 10),
    total: programs.map(() => 100),
    sources: [],
  },
  ...(programs.length === 1 ? { facts: factsOf(`./${programs[0]}`) } : {}),
});

const { profiles } = readPage(
  JSON.stringify({
    schema: SCHEMA,
    profiles: [profileOf("one"), profileOf("two"), profileOf("one", "two")],
  }),
);

const claimOf = (image: string | undefined, ...path: string[]) =>
  ({
    evidence: [],
    place: { what: { kind: "call_path", path }, ...(image === undefined ? {} : { image }) },
  }) as unknown as Claim;

const place = (about: string, claim: Claim, sets: string[] = []) => placeOfClaim(profiles, { about, sets }, claim);

describe("a finding of one of several programs", () => {
  it("leads into the profile of its program: the one that it names, or of its command", () => {
    expect(place("two.vf", claimOf("two", "work"))).toEqual({ profile: 1, calls: [0], line: 0 });
    expect(place("./two", claimOf("two", "work", "copy"))).toEqual({ profile: 1, calls: [0, 1], line: 0 });
    expect(place("./two", claimOf(undefined, "work"))?.profile).toBe(1);
    expect(place("one.vf → two.vf", claimOf("two", "work"), ["one.vf", "two.vf"])?.profile).toBe(1);
    expect(profilesOf(profiles, { about: "", sets: [] })).toEqual([]);
  });

  it("leads nowhere where the page has other programs only, though these have procedures of its names", () => {
    expect(place("./three", claimOf("three", "work"))).toBeNull();
    expect(place("./three", claimOf(undefined, "work"))).toBeNull();
    expect(place("./three", claimOf("libc.so.6", "copy"))?.profile).toBe(2);
    expect(placeOfClaim(profiles.slice(0, 2), { about: "./three", sets: [] }, claimOf("libc.so.6", "copy"))).toBeNull();
    expect(place("./two --else", claimOf("/opt/two", "work"))?.profile).toBe(1);
  });

  it("is told apart by its image in a recording of the whole machine", () => {
    expect(place("one-two.vf", claimOf("/usr/bin/two", "work"))).toEqual({ profile: 2, calls: [1], line: 1 });
    expect(place("one-two.vf", claimOf("one", "work", "copy", "[read]"))).toEqual({
      profile: 2,
      calls: [0, 2],
      line: 0,
    });
    expect(callsOf(profiles[2]!, claimOf("two", "gone", "copy"))).toEqual([2]);
    expect(callsOf(profiles[2]!, claimOf("two", "gone"))).toBeNull();
  });

  it("has no answer of another program's methods", () => {
    const run = { schema: "vitalfew.run/2", target: { command: ["./one"] }, asked: [{ method: "experiments" }] };
    const causal = (command: string) => ({ schema: "vitalfew.causal/1", runs: [{ command: [command] }] });
    const states = [causal("./two"), causal("./one")].map(
      (other) => askedGroups({ results: [run, other], profiles: [] })[0]!.methods[0]!.state,
    );
    expect(states).toEqual(["not asked", "asked"]);
  });

  it("does not take what is chosen in one profile into another", () => {
    route.value = { view: "findings", params: { profile: "1", thread: "t", range: "1-2", value: "1" } };
    expect(linkTo("flame", { profile: "1" })).toBe("#/flame?profile=1&range=1-2&thread=t&value=1");
    expect(linkTo("flame")).toBe("#/flame?profile=1&range=1-2&thread=t&value=1");
    expect(linkTo("flame", { profile: "0" })).toBe("#/flame?profile=0");
  });
});

it("sequences that overlap are listed by what each adds, the most first", () => {
  const tree = profiles[2]!.byThread;
  const found = withoutOverlap(
    tree,
    0,
    [[0], [2], [1]].map((path) => sequenceOf(tree, 0, path)!),
  );
  expect(found.map(({ amount }) => amount)).toEqual([180, 100, 10]);
});
