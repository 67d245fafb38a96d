/**
 * Labels of call sequences, in the URL by the names of methods: so they are right when the data are
 * newer, and in another page of the same program. No DOM.
 */
import type { Profile } from "./data";
import type { Path } from "./sequences";

/** A label: a name, and a sequence of methods by what they are called in the URL. */
export interface Label {
  readonly name: string;
  readonly steps: readonly string[];
}

/** Longer names are cut in the URL, and told apart by a hash. */
const LONGEST = 100;

function hashed(text: string): string {
  let hash = 5381;
  for (let at = 0; at < text.length; at++) hash = (Math.imul(hash, 33) ^ text.charCodeAt(at)) >>> 0;
  return hash.toString(36);
}

/** What each method is called in the URL: its name, with its image where two have the same. */
export function stepNames(profile: Pick<Profile, "names" | "module" | "modules">): string[] {
  const short = (text: string) => (text.length > LONGEST ? `${text.slice(0, LONGEST)}~${hashed(text)}` : text);
  const counts = new Map<string, number>();
  for (const name of profile.names) counts.set(name, (counts.get(name) ?? 0) + 1);
  const seen = new Set<string>();
  return profile.names.map((name, method) => {
    const first =
      counts.get(name) === 1 ? short(name) : `${short(name)}@${short(profile.modules[profile.module[method]!]!)}`;
    let key = first;
    for (let number = 2; seen.has(key); number++) key = `${first}@${number}`;
    seen.add(key);
    return key;
  });
}

const escaped = (text: string) => text.replace(/[\\;=|]/g, (char) => `\\${char}`);

/** Cuts at a sign that no backslash stands before. */
function cutAt(text: string, sign: string): string[] {
  const parts = [""];
  for (let at = 0; at < text.length; at++) {
    if (text[at] === "\\") parts.push(parts.pop()! + text[at]! + (text[++at] ?? ""));
    else if (text[at] === sign) parts.push("");
    else parts.push(parts.pop()! + text[at]!);
  }
  return parts;
}

const plain = (text: string) => text.replace(/\\(.)/gs, "$1");

export const formatSteps = (steps: readonly string[]) => steps.map(escaped).join(";");
export const parseSteps = (text: string) => (text === "" ? [] : cutAt(text, ";").map(plain));
export const formatLabels = (labels: readonly Label[]) =>
  labels.map((one) => `${escaped(one.name)}=${formatSteps(one.steps)}`).join("|");

export function parseLabels(text: string): Label[] {
  return cutAt(text, "|").flatMap((one) => {
    const [name = "", steps = ""] = cutAt(one, "=");
    return steps === "" ? [] : [{ name: plain(name), steps: parseSteps(steps) }];
  });
}

/** The methods of these steps; null if the profile does not have all of them. */
export function pathOfSteps(keys: ReadonlyMap<string, number>, steps: readonly string[]): Path | null {
  const path = steps.map((step) => keys.get(step) ?? -1);
  return path.includes(-1) || path.length === 0 ? null : path;
}
