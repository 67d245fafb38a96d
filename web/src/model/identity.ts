/** Which methods are the same: names alone do not tell, since several images may have a `main` or `_start`. */
import type { Profile } from "./data";

type Methods = Pick<Profile, "names" | "module" | "modules">;

const keyOf = (profile: Methods, method: number) => `${profile.names[method]!}\0${profile.modules[profile.module[method]!]!}`;

/** The method of that name, in that image if it is said; -1 if there is none. */
export function methodNamed(profile: Methods, name: string, image?: string): number {
  const own = image === undefined ? -1 : profile.names.findIndex((one, method) => one === name && profile.modules[profile.module[method]!] === image);
  return own >= 0 ? own : profile.names.indexOf(name);
}

export interface CommonMethods {
  readonly names: readonly string[];
  /** By method of the first profile, and of the second: the common number. */
  readonly numbers: readonly [readonly number[], readonly number[]];
}

/** Common numbers for the methods of two profiles: the same name in the same image, or the only ones of their name, as where a program was renamed. */
export function commonMethods(a: Methods, b: Methods): CommonMethods {
  const names: string[] = [];
  const known = new Map<string, number>();
  const add = (key: string, name: string) => {
    const number = known.get(key) ?? names.push(name) - 1;
    known.set(key, number);
    return number;
  };
  const first = a.names.map((name, method) => add(keyOf(a, method), name));
  const [onceA, onceB] = [onlyOnes(a), onlyOnes(b)];
  const second = b.names.map((name, method) => {
    const twin = onceB.has(name) ? onceA.get(name) : undefined;
    return twin === undefined ? add(keyOf(b, method), name) : first[twin]!;
  });
  return { names, numbers: [first, second] };
}

/** The methods whose name no other has. */
function onlyOnes(profile: Methods): Map<string, number> {
  const seen = new Map<string, number>();
  profile.names.forEach((name, method) => seen.set(name, seen.has(name) ? -1 : method));
  return new Map([...seen].filter(([, method]) => method >= 0));
}
