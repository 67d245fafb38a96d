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
  /** By profile and its method: the common number. */
  readonly numbers: readonly (readonly number[])[];
}

/** Common numbers for the methods of profiles: the same name in the same image, or, beside the first profile, the only ones of their name, as where a program was renamed. */
export function commonMethods(first: Methods, ...others: readonly Methods[]): CommonMethods {
  const names: string[] = [];
  const known = new Map<string, number>();
  const add = (key: string, name: string) => {
    const number = known.get(key) ?? names.push(name) - 1;
    known.set(key, number);
    return number;
  };
  const own = first.names.map((name, method) => add(keyOf(first, method), name));
  const once = onlyOnes(first);
  const numbers = others.map((other) => {
    const onceThere = onlyOnes(other);
    return other.names.map((name, method) => {
      const twin = onceThere.has(name) ? once.get(name) : undefined;
      return twin === undefined ? add(keyOf(other, method), name) : own[twin]!;
    });
  });
  return { names, numbers: [own, ...numbers] };
}

/** The methods whose name no other has. */
function onlyOnes(profile: Methods): Map<string, number> {
  const seen = new Map<string, number>();
  profile.names.forEach((name, method) => seen.set(name, seen.has(name) ? -1 : method));
  return new Map([...seen].filter(([, method]) => method >= 0));
}
