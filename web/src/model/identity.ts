/**
 * Which methods are the same: names alone do not tell, since several images may have a `main` or
 * `_start`.
 */
import type { Profile } from "./data";

type Methods = Pick<Profile, "names" | "module" | "modules">;

/** The module of a method: the last part of its image's path. */
export const moduleOf = (profile: Pick<Methods, "module" | "modules">, method: number) =>
  profile.modules[profile.module[method]!]!;

/** The last part of a path, as modules are called. */
export const lastPart = (path: string) => path.split("/").at(-1)!;

const numbered = new WeakMap<readonly string[], Map<string, number[]>>();

/** The methods of a name, in all images. */
export function methodsNamed({ names }: Pick<Methods, "names">, name: string): readonly number[] {
  let known = numbered.get(names);
  if (!known) {
    known = new Map();
    for (const [method, one] of names.entries()) {
      const methods = known.get(one);
      if (methods) methods.push(method);
      else known.set(one, [method]);
    }
    numbered.set(names, known);
  }
  return known.get(name) ?? [];
}

const keyOf = (profile: Methods, method: number) => `${profile.names[method]!}\0${moduleOf(profile, method)}`;

/** The method of that name, in that image if it is said; -1 if there is none. */
export function methodNamed(profile: Methods, name: string, image?: string): number {
  const methods = methodsNamed(profile, name);
  return methods.find((method) => moduleOf(profile, method) === image) ?? methods[0] ?? -1;
}

export interface CommonMethods {
  readonly names: readonly string[];
  /** By profile and its method: the common number. */
  readonly numbers: readonly (readonly number[])[];
}

/**
 * Common numbers for the methods of profiles: the same name in the same image, or, beside the first
 * profile, the only ones of their name, as where a program was renamed.
 */
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
