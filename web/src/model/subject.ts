/**
 * What a claim is about: its program, and its place there. Other programs of the page may have
 * procedures of the same name. No DOM.
 */
import { type ClaimGroup, lineToChange } from "./claims";
import type { Claim, Profile } from "./data";
import { lastPart, methodNamed, methodsNamed, moduleOf } from "./identity";
import { type Path, sequenceOf } from "./sequences";

export interface ClaimPlace {
  /** Position of the profile of the claim's program. */
  readonly profile: number;
  /** Calls of that profile that the claim is about, the innermost last. */
  readonly calls: Path;
  /** Position of the line to look at, or -1. */
  readonly line: number;
}

/**
 * The profiles of the program that claims are about, the surest first: the one that is named, and
 * recordings of the same command.
 */
export function profilesOf(
  profiles: readonly Pick<Profile, "name" | "facts">[],
  { about, sets }: Pick<ClaimGroup, "about" | "sets">,
): number[] {
  const numbers = [...profiles.keys()];
  // Of a change, what is now comes first.
  const named = [about, ...[...sets].reverse()].flatMap((name) => numbers.filter((at) => profiles[at]!.name === name));
  return [
    ...new Set([
      ...named,
      ...numbers.filter((at) => about !== "" && profiles[at]!.facts?.command?.join(" ") === about),
    ]),
  ];
}

/** The place of a claim in a profile of its program; null if the page has none. */
export function placeOfClaim(
  profiles: readonly Profile[],
  group: Pick<ClaimGroup, "about" | "sets">,
  claim: Claim,
): ClaimPlace | null {
  const own = profilesOf(profiles, group);
  for (const at of own.length > 0 ? own : profiles.keys()) {
    const profile = profiles[at]!;
    if (own.length === 0 && !mayHave(profile, group.about, claim)) continue;
    const calls = callsOf(profile, claim);
    if (calls) return { profile: at, calls, line: lineToChange(profile, claim, calls) };
  }
  return null;
}

/**
 * Whether a profile that is not known to be of the claim's program has its image: that of the same
 * executable, or of several programs.
 */
function mayHave(profile: Profile, about: string, claim: Claim): boolean {
  const image = lastPart(claim.place.image ?? "");
  if (!profile.modules.includes(image) || image === "") return false;
  const command = profile.facts?.command;
  return command === undefined || (lastPart(command[0]!) === image && lastPart(about.split(" ")[0]!) === image);
}

/** The names of a claim's calls, the innermost last; none of a claim about the whole program. */
export function callNames({ place: { what } }: Pick<Claim, "place">): readonly string[] {
  const name = what.name ?? what.procedure ?? what.line;
  return what.path ?? (name === undefined ? [] : [name]);
}

/**
 * Maximum number of ways to read a sequence of names that are tried, where several images have
 * procedures of these names.
 */
const MOST_READINGS = 64;

/**
 * The calls that these names stand for: as a sequence if the profile has it, else the innermost
 * alone.
 */
export function callsOf(profile: Profile, claim: Pick<Claim, "place">): Path | null {
  const image = claim.place.image && lastPart(claim.place.image);
  const names = callNames(claim);
  // A system call or a wait is no procedure of a profile.
  const end = names.findLastIndex((name) => methodsNamed(profile, name).length > 0) + 1;
  if (end === 0) return null;
  const steps = names.slice(0, end).map((name) => methodsNamed(profile, name));
  const readings = steps.reduce<Path[]>(
    (all, step) => (all.length > MOST_READINGS ? [] : all.flatMap((path) => step.map((method) => [...path, method]))),
    [[]],
  );
  const inImage = (path: Path) => (path.some((method) => moduleOf(profile, method) === image) ? 1 : 0);
  const found = readings.flatMap((path) => sequenceOf(profile.byThread, profile.defaultValue, path) ?? []);
  const [best] = found.sort((a, b) => inImage(b.path) - inImage(a.path) || b.cum - a.cum);
  if (best) return best.path;
  const method = methodNamed(profile, names[end - 1]!, image);
  return method < 0 ? null : [method];
}
