/** Causal profiles: which runs are shown together, and the text of the lines that curves are of. */
import { commandOf } from "./claims";
import type { Profile, Result } from "./data";

export interface CausalProgram {
  readonly command: string;
  /** All profiles of the program. */
  readonly files: readonly string[];
  /** The analyses of those together, and of choices of them. */
  readonly results: readonly Result[];
}

const filesOf = (result: Result) =>
  Array.isArray(result["files"]) ? (result["files"] as readonly unknown[]).map(String) : [];

/**
 * Results by program. One that does not name its files, as `causal report --json` says, stands
 * alone.
 */
export function causalPrograms(results: readonly Result[]): CausalProgram[] {
  const programs: { files: string[]; results: Result[]; command: string }[] = [];
  for (const result of results) {
    const [files, command] = [filesOf(result), commandOf(result)];
    const known =
      files.length === 0 ? undefined : programs.find((one) => one.command === command && one.files.length > 0);
    if (known) {
      known.results.push(result);
      known.files.push(...files.filter((file) => !known.files.includes(file)));
    } else programs.push({ files, results: [result], command });
  }
  return programs;
}

/** The analysis of some profiles together; null if the page has none. */
export function chosenResult(program: CausalProgram, files: readonly string[]): Result | null {
  return (
    program.results.find(
      (one) => filesOf(one).length === files.length && filesOf(one).every((file) => files.includes(file)),
    ) ?? null
  );
}

export interface LineText {
  readonly path: string;
  readonly text: readonly string[];
  readonly offset: number;
  readonly profile: number;
  /** Position among the lines of the profile, or -1. */
  readonly row: number;
}

/**
 * Finds a line by its name, `file:number`, in the profiles of these positions; the file can be
 * spelled by its end.
 */
export function lineNamed(
  profiles: readonly Pick<Profile, "lines">[],
  among: readonly number[],
  name: string,
): LineText | null {
  const [, path, digits] = /^(.+):(\d+)$/.exec(name) ?? [];
  if (path === undefined) return null;
  const line = Number(digits);
  for (const profile of among) {
    const { lines } = profiles[profile]!;
    for (const part of lines?.sources ?? []) {
      const file = lines!.files[part.file]!;
      if ((file === path || file.endsWith(`/${path}`)) && part.first <= line && line < part.first + part.text.length) {
        return {
          path: file,
          text: part.text,
          offset: line - part.first,
          profile,
          row: lines!.line.findIndex((one, row) => one === line && lines!.file[row] === part.file),
        };
      }
    }
  }
  return null;
}
