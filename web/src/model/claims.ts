/**
 * Claims of all methods, put together by what they are a part of: amounts of different wholes are
 * not compared.
 */
import type { Claim, Profile, Result } from "./data";
import { percent } from "./format";
import { lastPart, methodNamed, moduleOf } from "./identity";

export const VITAL_FEW = 5;

export interface ClaimGroup {
  readonly key: string;
  readonly method: "causal" | "interference" | "cost" | "other";
  readonly question: string;
  readonly axis: string;
  readonly about: string;
  /** The names of the profiles that are compared, if it is about several. */
  readonly sets: readonly string[];
  /** Parts that do not overlap: they add up to no more than the whole. */
  readonly exclusive: boolean;
  readonly view: string;
  readonly viewName: string;
  readonly claims: readonly Claim[];
  /** An amount as text. */
  readonly show: (value: number) => string;
}

const KINDS: Readonly<
  Record<string, Pick<ClaimGroup, "method" | "question" | "axis" | "exclusive" | "view" | "viewName">>
> = {
  takes_time: {
    method: "other",
    question: "What is worth changing",
    axis: "at most this part of the time that its threads work, no time counted twice",
    exclusive: true,
    view: "bottlenecks",
    viewName: "Bottlenecks",
  },
  worth_speedup: {
    method: "causal",
    question: "What making it faster is worth",
    axis: "by how much the program becomes faster",
    exclusive: false,
    view: "causal",
    viewName: "Curves",
  },
  loses_time: {
    method: "interference",
    question: "Where threads lose time to each other",
    axis: "part of all threads' time",
    exclusive: false,
    view: "interference",
    viewName: "Interference",
  },
  holds_cost: {
    method: "cost",
    question: "Which calls hold the cost",
    axis: "part of the cost, overlap counted once",
    exclusive: true,
    view: "bottlenecks",
    viewName: "Bottlenecks",
  },
  changed: {
    method: "other",
    question: "What changed",
    axis: "times what it was",
    exclusive: false,
    view: "compare",
    viewName: "Compare",
  },
  varies: {
    method: "other",
    question: "What varies",
    axis: "range over the sets, of their mean",
    exclusive: false,
    view: "compare",
    viewName: "Compare",
  },
  stalls: {
    method: "other",
    question: "Where instructions wait",
    axis: "part of their procedure's time",
    exclusive: false,
    view: "source",
    viewName: "Source",
  },
};
const ORDER = Object.keys(KINDS);

/** The end of the interval nearer to nothing: what can be relied on. */
export function conservative(claim: Claim): number {
  const { value, interval } = claim.amount;
  if (!interval) return value;
  return interval[0] > 0 ? interval[0] : interval[1] < 0 ? interval[1] : 0;
}

/** Groups in the order of what is best to act on; in each, by what can be relied on. */
export function groupedClaims(results: readonly Result[], profiles: readonly Named[] = []): ClaimGroup[] {
  const groups = new Map<string, Claim[]>();
  for (const result of results) {
    if (comparesPrograms(result, profiles)) continue;
    for (const claim of result.claims?.list ?? []) {
      const kind = claim.claim === "speedup_hurts" ? "worth_speedup" : claim.claim;
      if (!(kind in KINDS)) continue;
      const about = typeof result["profile"] === "string" ? result["profile"] : commandOf(result);
      const base = JSON.stringify([kind, claim.amount.relative_to, about, setsOf(result)]);
      groups.set(base, [...(groups.get(base) ?? []), claim]);
    }
  }
  const made = [...groups].map(([base, claims]): ClaimGroup => {
    const [kind, relative, about, sets] = JSON.parse(base) as [string, unknown, string, readonly string[]];
    const key = `${kind}-${[...groups.keys()].indexOf(base)}`;
    const part =
      typeof relative === "object" && relative !== null
        ? Object.entries(relative)
            .map(([name, point]) => `${name} of ${String(point)}`)
            .join()
        : "";
    const sorted = KINDS[kind]!.exclusive
      ? claims
      : [...claims].sort((a, b) => Math.abs(conservative(b)) - Math.abs(conservative(a)));
    const show = kind === "changed" ? times : percent;
    return {
      ...KINDS[kind]!,
      show,
      key,
      axis: KINDS[kind]!.axis + (part ? ` (${part})` : ""),
      about,
      sets,
      claims: sorted,
    };
  });
  return made.sort((a, b) => kindOf(a) - kindOf(b));
}

type Named = Pick<Profile, "name" | "facts">;

/** Of two programs nearly everything differs, and nobody changed it: that is no finding. */
function comparesPrograms(result: Result, profiles: readonly Named[]): boolean {
  const sets = result.schema === "vitalfew.diff/1" ? setsOf(result) : [];
  const programs = sets.flatMap(
    (set) =>
      profiles
        .find((one) => one.name === set)
        ?.facts?.command?.[0]?.split("/")
        .at(-1) ?? [],
  );
  return new Set(programs).size > 1;
}

/**
 * The answers that `run` has put together already, apart from all others: of the same command, each
 * method's own.
 */
export function withoutRepeats(
  groups: readonly ClaimGroup[],
  profiles: readonly Named[],
): readonly [readonly ClaimGroup[], readonly ClaimGroup[]] {
  const ran = new Set(groups.filter((group) => group.key.startsWith("takes_time-")).map((group) => group.about));
  const commandOfGroup = (group: ClaimGroup) =>
    profiles.find((one) => one.name === group.about)?.facts?.command?.join(" ") ?? group.about;
  const repeats = groups.filter((group) => !group.key.startsWith("takes_time-") && ran.has(commandOfGroup(group)));
  return [groups.filter((group) => !repeats.includes(group)), repeats];
}

const times = (value: number) => `${value.toFixed(2)} ×`;
const kindOf = (group: ClaimGroup) => ORDER.indexOf(group.key.slice(0, group.key.lastIndexOf("-")));

const setsOf = (result: Result) => (Array.isArray(result["sets"]) ? result["sets"].map(String) : []);

/** The command that a result is of, as a line; empty if it says none. */
export function commandOf(result: Result): string {
  const sets = setsOf(result);
  if (sets.length > 0) return sets.join(" → ");
  const runs = result["runs"];
  const target = result["target"] as { command?: unknown } | undefined;
  const command = Array.isArray(runs)
    ? (runs[0] as { command?: unknown } | undefined)?.command
    : (result["command"] ?? target?.command);
  return Array.isArray(command) ? command.join(" ") : "";
}

/**
 * Waiting for a CPU is a part of another whole than working time: it stands beside what adds up.
 */
export function isBeside(claim: Pick<Claim, "evidence" | "place">): boolean {
  return (
    claim.place.what.kind === "program" &&
    claim.evidence.some((one) => one["kind"] === "time_spent" && one["on"] === "no_cpu")
  );
}

/**
 * The dearest line of a method, with what it calls, as a position among the profile's lines; -1 if
 * none is known.
 */
export function hottestLine(profile: Pick<Profile, "lines" | "names" | "module" | "modules">, method: number): number {
  const { lines } = profile;
  let best = -1;
  lines?.function.forEach((one, at) => {
    const isIn = one === profile.names[method] && lines.images[lines.image[at]!] === moduleOf(profile, method);
    if (isIn && (best < 0 || lines.total[at]! > lines.total[best]!)) best = at;
  });
  return best;
}

/** Code of libraries and compilers: nobody changes it to make a program faster. */
const FOREIGN =
  /^(\/usr\/|\/lib|\/build\/|\/rustc\/|\.{1,2}\/)|\/sysdeps\/|\/site-packages\/|\/node_modules\/|\/\.cargo\/registry\//;

const fileOf = (profile: Pick<Profile, "lines">, line: number) => profile.lines!.files[profile.lines!.file[line]!]!;

/**
 * The position of `file:line` among the profile's lines, the file spelled by its end; of several
 * images' that of this one. -1 if it has none.
 */
function lineAt({ lines }: Pick<Profile, "lines">, name: string, image: string | undefined): number {
  const [, path = "", digits = ""] = /^(.+):(\d+)$/.exec(name) ?? [];
  const isIt = (at: number) =>
    lines!.line[at] === Number(digits) &&
    (lines!.files[lines!.file[at]!] === path || lines!.files[lines!.file[at]!]!.endsWith(`/${path}`));
  const found = [...(lines?.line.keys() ?? [])].filter(isIt);
  return found.find((at) => lines!.images[lines!.image[at]!] === image) ?? found[0] ?? -1;
}

/**
 * The line to look at for a finding: of the innermost of its calls that is the program's own code,
 * else of any. -1 if none is known.
 */
export function lineToChange(
  profile: Pick<Profile, "lines" | "names" | "module" | "modules">,
  claim: Pick<Claim, "place" | "evidence">,
  calls: readonly number[],
): number {
  const image = claim.place.image && lastPart(claim.place.image);
  const own = lineAt(profile, claim.place.what.line ?? "", image);
  if (own >= 0) return own;
  const said = lineAt(profile, String(claim.evidence.find((one) => one["kind"] === "dear_line")?.["line"]), image);
  if (said >= 0 && !FOREIGN.test(fileOf(profile, said))) return said;
  const named = [...(claim.place.what.path ?? [])]
    .reverse()
    .concat(claim.evidence.filter((one) => one["kind"] === "on_behalf_of").map((one) => String(one["function"])));
  const methods = [...[...calls].reverse(), ...named.map((name) => methodNamed(profile, name, image))];
  const found = methods.map((method) => hottestLine(profile, method)).filter((line) => line >= 0);
  // All programs have the libraries' callers in common.
  return found.find((line) => !FOREIGN.test(fileOf(profile, line))) ?? hottestLine(profile, calls.at(-1) ?? -1);
}
