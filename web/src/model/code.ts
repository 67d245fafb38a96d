/**
 * Questions about a procedure's code: what its lines, blocks and instructions cost, and why. No
 * DOM.
 */
import type { Lines, Procedure } from "./data";
import { lastPart } from "./identity";

/** Causes of stalls by the letters of `annotate`: what it means, and what helps. */
export const CAUSES: Readonly<Record<string, string>> = {
  i: "The instruction was not in the first-level instruction cache. Smaller or closer code helps.",
  I: "The translation of its own address was not in the first-level table. Code in fewer or larger pages helps.",
  d: "Data that it, or the load before it, reads were not in the first-level cache. Fewer or closer data help.",
  D: "The translation of a data address was not in the first-level table. Fewer pages, or larger ones, help.",
  w: "Stores wait for room: the lines that they write are far away, or another processor has them.",
  p: "A branch, call or return before it went another way than predicted. Fewer or regular branches help.",
  c: "It waits for results of instructions before it. Shorter chains, or several independent ones, help.",
  u: "A division, or another operation that keeps its unit for long.",
  o: "Other instructions have the ports that it needs.",
  l: "A locked or serialising instruction waits for all before it. Fewer atomic operations help.",
  f: "A page was not mapped yet. Memory that is used again, or mapped beforehand, helps.",
  m: "The processor carries it out by microcode.",
};

/** Samples by source line, the key being `file:line` with the position of the file. */
export function samplesByLine(procedure: Procedure): Map<string, number> {
  const { file, line, samples } = procedure.instructions;
  const sums = new Map<string, number>();
  samples.forEach((count, at) => {
    if (file[at] === null || line[at] === null) return;
    const key = `${file[at]}:${line[at]}`;
    sums.set(key, (sums.get(key) ?? 0) + count);
  });
  return sums;
}

/** The file that most of a procedure's samples are in; -1 without debug information. */
export function mainFile(procedure: Procedure): number {
  const sums = procedure.files.map(() => 0);
  procedure.instructions.samples.forEach((count, at) => {
    const file = procedure.instructions.file[at];
    if (file !== null && file !== undefined) sums[file]! += count + 1e-9;
  });
  return sums.reduce((best, sum, file) => (best < 0 || sum > sums[best]! ? file : best), -1);
}

/** The first and last line of a file that the procedure has code of. */
export function linesOf(procedure: Procedure, file: number): readonly [number, number] {
  let [first, last] = [Infinity, 0];
  procedure.instructions.line.forEach((line, at) => {
    if (line === null || line === 0 || procedure.instructions.file[at] !== file) return;
    first = Math.min(first, line);
    last = Math.max(last, line);
  });
  return [first, last];
}

export interface BlockFacts {
  readonly samples: number;
  readonly instructions: number;
  /** Executions, in relation to the block that is executed most often; null: not known. */
  readonly often: number | null;
  /** Cycles for each instruction; null: not known. */
  readonly cpi: number | null;
  readonly best: number;
}

export function blockFacts(procedure: Procedure, block: number): BlockFacts {
  const { blocks, instructions } = procedure;
  const [first, end] = [blocks.first[block]!, blocks.end[block]!];
  const sum = (column: readonly number[]) => column.slice(first, end).reduce((all, one) => all + one, 0);
  const count = Math.max(1, end - first);
  const samples = sum(instructions.samples);
  const frequency = blocks.frequency[block] ?? null;
  const most = Math.max(0, ...blocks.frequency.map((one) => one ?? 0));
  const known = frequency !== null && frequency > 0;
  return {
    samples,
    instructions: end - first,
    best: sum(instructions.best) / count,
    often: known && most > 0 ? frequency / most : null,
    cpi:
      known && blocks.doubt[block] === null && instructions.cycles.slice(first, end).some((one) => one !== null)
        ? samples / (frequency * count)
        : null,
  };
}

/** The blocks to draw, by address: all, or of many those with most samples. */
export function drawnBlocks(procedure: Procedure, most: number): number[] {
  const all = procedure.blocks.first.map((_, block) => block);
  if (all.length <= most) return all;
  const samples = new Map(all.map((block) => [block, blockFacts(procedure, block).samples]));
  return all
    .sort((a, b) => samples.get(b)! - samples.get(a)! || a - b)
    .slice(0, most)
    .sort((a, b) => a - b);
}

/**
 * The position of a procedure of this name, in that image if it is said and known; -1 if there is
 * none.
 */
export function procedureNamed(procedures: readonly Procedure[], name: string, image?: string): number {
  const own = procedures.findIndex((one) => one.name === name && lastPart(one.image) === image);
  return own >= 0 ? own : procedures.findIndex((one) => one.name === name);
}

/** The procedure whose hottest instructions are of a line; -1 if there is none. */
export function procedureOfLine(procedures: readonly Procedure[], path: string, line: number): number {
  let [found, most] = [-1, -1];
  procedures.forEach((procedure, index) => {
    const count = samplesByLine(procedure).get(`${procedure.files.indexOf(path)}:${line}`) ?? -1;
    if (count > most) [found, most] = [index, count];
  });
  return found;
}

/** A row of the lines as an address says it: it finds the same line in a newer recording. */
function addressOfLine(lines: Lines, row: number): string {
  return `${lines.files[lines.file[row]!]!}:${lines.line[row]} ${lines.function[row]}`;
}

/** The same with its image, as parameters of the source view. */
export function paramsOfLine(lines: Lines, row: number): { readonly line: string; readonly image: string } {
  return { line: addressOfLine(lines, row), image: lines.images[lines.image[row]!]! };
}

/** The row of such an address, in that image if it is said and known; -1 if there is none. */
export function rowOfAddress(lines: Lines, address: string, image?: string): number {
  const rows = [...lines.line.keys()].filter((row) => addressOfLine(lines, row) === address);
  return rows.find((row) => lines.images[lines.image[row]!] === image) ?? rows[0] ?? -1;
}
