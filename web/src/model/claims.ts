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
  readonly question: string;
  readonly axis: string;
  readonly about: string;
  /** The names of the profiles that are compared, if it is about several. */
  readonly sets: readonly string[];
  readonly view: string;
  readonly viewName: string;
  readonly claims: readonly Claim[];
  /** The part that no claim has; null where claims are no parts of a whole. */
  readonly rest: number | null;
  /** How long the run took, and the time of its threads by kind. */
  readonly header: string;
  /** What the machine did to the run, if that was much. */
  readonly machine: string;
  /** An amount as text. */
  readonly show: (value: number) => string;
}

/** Of each kind: the question, the axis, whether claims are parts of a whole, and their view. */
const KINDS: Readonly<Record<string, readonly [string, string, boolean, string, string]>> = {
  takes_time: ["What is worth changing", "share of the working time", true, "bottlenecks", "Bottlenecks"],
  worth_speedup: [
    "What making it faster is worth",
    "by how much the program becomes faster",
    false,
    "causal",
    "Curves",
  ],
  loses_time: [
    "Where threads lose time to each other",
    "part of all threads' time",
    false,
    "interference",
    "Interference",
  ],
  holds_cost: [
    "Which calls hold the cost",
    "part of the cost, overlap counted once",
    true,
    "bottlenecks",
    "Bottlenecks",
  ],
  changed: ["What changed", "times what it was", false, "compare", "Compare"],
  varies: ["What varies", "range over the sets, of their mean", false, "compare", "Compare"],
  stalls: ["Where instructions wait", "part of their procedure's time", false, "source", "Source"],
};
const ORDER = Object.keys(KINDS);

/** What a change there is sure to bring: a claim's place among others is by that. */
export function leastGain({ amount, evidence }: Pick<Claim, "amount" | "evidence">): number {
  const savings = evidence.filter((one) => one["kind"] === "virtual_speedup" || one["kind"] === "contention_loss");
  const ends = savings.map((one) => Math.max(0, (one["interval"] as readonly [number, number])[0]));
  if (ends.length > 0) return Math.max(...ends);
  const [low, high] = amount.interval ?? [amount.value, amount.value];
  return low > 0 ? low : Math.min(0, high);
}

/** Groups in the order of what is best to act on; in each, by what can be relied on. */
export function groupedClaims(results: readonly Result[], profiles: readonly Named[] = []): ClaimGroup[] {
  const groups = new Map<string, { readonly result: Result; readonly claims: Claim[] }>();
  for (const result of results) {
    if (comparesPrograms(result, profiles)) continue;
    for (const claim of result.claims?.list ?? []) {
      const kind = claim.claim === "speedup_hurts" ? "worth_speedup" : claim.claim;
      if (!(kind in KINDS)) continue;
      const about = typeof result["profile"] === "string" ? result["profile"] : commandOf(result);
      const base = JSON.stringify([kind, claim.amount.relative_to, about, setsOf(result)]);
      const known = groups.get(base);
      if (known) known.claims.push(claim);
      else groups.set(base, { result, claims: [claim] });
    }
  }
  const made = [...groups].map(([base, { result, claims }]): ClaimGroup => {
    const [kind, relative, about, sets] = JSON.parse(base) as [string, unknown, string, readonly string[]];
    const key = `${kind}-${[...groups.keys()].indexOf(base)}`;
    const part =
      typeof relative === "object" && relative !== null
        ? Object.entries(relative)
            .map(([name, point]) => `${name} of ${String(point)}`)
            .join()
        : "";
    const [question, axis, areParts, view, viewName] = KINDS[kind]!;
    const covered = Number(result["together"] ?? claims.reduce((sum, { amount }) => sum + amount.value, 0));
    return {
      question,
      view,
      viewName,
      rest: areParts ? Math.max(0, 1 - covered) : null,
      header: String(result["header"] ?? ""),
      machine: (result["machine"] as Claim | undefined)?.sentence ?? "",
      show: kind === "changed" ? times : percent,
      key,
      axis: axis + (part ? ` (${part})` : ""),
      about,
      sets,
      claims: areParts ? claims : claims.sort((a, b) => Math.abs(leastGain(b)) - Math.abs(leastGain(a))),
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

/** The line that a claim itself names, as `file:line`; empty if none. */
export const lineOfClaim = ({ place, evidence }: Pick<Claim, "place" | "evidence">) =>
  place.what.line ?? String(evidence.find((one) => one["kind"] === "dear_line")?.["line"] ?? "");

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
 * The line to look at for a finding: the one that it names, else of the innermost of its calls that
 * is the program's own code, else of any. -1 if none is known.
 */
export function lineToChange(
  profile: Pick<Profile, "lines" | "names" | "module" | "modules">,
  claim: Pick<Claim, "place" | "evidence">,
  calls: readonly number[],
): number {
  const image = claim.place.image && lastPart(claim.place.image);
  const said = lineAt(profile, lineOfClaim(claim), image);
  if (said >= 0) return said;
  const named = [...(claim.place.what.path ?? [])]
    .reverse()
    .concat(claim.evidence.filter((one) => one["kind"] === "on_behalf_of").map((one) => String(one["function"])));
  const methods = [...[...calls].reverse(), ...named.map((name) => methodNamed(profile, name, image))];
  const found = methods.map((method) => hottestLine(profile, method)).filter((line) => line >= 0);
  // All programs have the libraries' callers in common.
  return found.find((line) => !FOREIGN.test(fileOf(profile, line))) ?? hottestLine(profile, calls.at(-1) ?? -1);
}
