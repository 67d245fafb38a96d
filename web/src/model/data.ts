/** The data as they come (`vitalfew.page/1`, docs/page.md), checked and made into columns. */
import { filtered } from "./transforms";
import { type CallTree, treeOfColumns } from "./tree";

export interface Value {
  readonly name: string;
  readonly unit: string;
}

export interface Claim {
  readonly sentence: string;
  readonly claim: string;
  readonly place: { readonly image?: string; readonly what: { readonly kind: string; readonly path?: readonly string[]; readonly name?: string; readonly line?: string; readonly procedure?: string } };
  readonly amount: { readonly value: number; readonly interval?: readonly [number, number]; readonly unit: unknown; readonly relative_to: unknown; readonly certainty: string };
  readonly evidence: readonly Readonly<Record<string, unknown>>[];
  readonly doubts: readonly Readonly<Record<string, unknown>>[];
  readonly next: readonly string[];
}

/** What a command said with `--json`; views know the schemas that they show. */
export interface Result {
  readonly schema: string;
  readonly claims?: { readonly list: readonly Claim[] };
  readonly [key: string]: unknown;
}

export interface Lines {
  readonly files: readonly string[];
  readonly file: readonly number[];
  readonly line: readonly number[];
  readonly function: readonly string[];
  readonly own: readonly number[];
  readonly total: readonly number[];
  readonly sources: readonly { readonly file: number; readonly first: number; readonly text: readonly string[] }[];
}

export interface TaskTimes {
  readonly cpu_ns: number;
  readonly waiting_ns?: number;
  readonly blocked_ns?: number;
  readonly idle_ns?: number;
  readonly threads?: number;
}

export interface Facts {
  readonly command?: readonly string[];
  readonly host: string;
  readonly cpu_model?: string;
  readonly cpus: number;
  readonly start_unix_ns: number;
  readonly duration_ns: number;
  readonly collector: string;
  readonly call_graph: string;
  readonly task_times?: TaskTimes;
}

export interface Profile {
  readonly name: string;
  readonly format: string;
  readonly notes: readonly string[];
  readonly facts?: Facts;
  readonly values: readonly Value[];
  readonly defaultValue: number;
  readonly names: readonly string[];
  readonly module: readonly number[];
  readonly modules: readonly string[];
  /** With threads as the outermost frames. */
  readonly byThread: CallTree;
  /** The methods that stand for threads. */
  readonly threads: readonly number[];
  readonly lines?: Lines;
  readonly leftOut?: { readonly nodes: number; readonly share: number };
}

export interface Page {
  readonly madeBy: string;
  readonly live: boolean;
  readonly profiles: readonly Profile[];
  readonly results: readonly Result[];
}

/** The version of the form that this page reads. */
export const SCHEMA = "vitalfew.page/1";

interface RawProfile extends Omit<Profile, "defaultValue" | "names" | "module" | "modules" | "byThread" | "threads" | "leftOut"> {
  readonly default_value: number;
  readonly methods: { readonly name: string[]; readonly module: number[]; readonly modules: string[] };
  readonly tree: { readonly depth: number[]; readonly method: number[]; readonly cost: number[][]; readonly left_out?: { nodes: number; share: number } };
}

/** Reads the document. Throws, with a sentence, on what it is not. */
export function readPage(json: string): Page {
  const raw = JSON.parse(json) as { schema?: string; made_by?: string; live?: boolean; profiles?: RawProfile[]; results?: Result[] };
  if (raw.schema !== SCHEMA) throw new Error(`The data are ${String(raw.schema)}; this page reads ${SCHEMA}.`);
  return { madeBy: raw.made_by ?? "", live: raw.live ?? false, profiles: (raw.profiles ?? []).map(readProfile), results: raw.results ?? [] };
}

function readProfile(raw: RawProfile): Profile {
  const { name: names, module, modules } = raw.methods;
  if (raw.tree.method.some((method) => method >= names.length)) throw new Error(`${raw.name}: a node names no method`);
  const byThread = treeOfColumns(raw.tree.depth, raw.tree.method, raw.tree.cost);
  const threads = names.map((_, method) => method).filter((method) => modules[module[method]!] === "[thread]");
  return {
    name: raw.name, format: raw.format, notes: raw.notes, values: raw.values, defaultValue: raw.default_value, names, module, modules, byThread, threads,
    ...(raw.facts ? { facts: raw.facts } : {}),
    ...(raw.lines ? { lines: raw.lines } : {}),
    ...(raw.tree.left_out ? { leftOut: raw.tree.left_out } : {}),
  };
}

/** The tree of one thread (by its method), or of all together, without the frames that stand for threads. */
export function treeOfThreads(profile: Profile, thread: number | null): CallTree {
  if (profile.threads.length === 0) return profile.byThread;
  const threads = new Set(profile.threads);
  const inside = (top: number) => thread === null || profile.byThread.method[top] === thread;
  return filtered(profile.byThread, profile.names.length, (method) => !threads.has(method), inside);
}
