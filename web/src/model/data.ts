/** The data as they come (`vitalfew.page/1`, docs/page.md), checked and made into columns. */
import { filtered } from "./transforms";
import { type CallTree, treeOfColumns } from "./tree";

export interface Value {
  readonly name: string;
  readonly unit: string;
  /** Samples in a second of a busy CPU. */
  readonly per_second?: number;
}

/** A finding, in words that commands say too, and as data. */
export interface Claim {
  readonly sentence: string;
  /** What a speedup there brings, if that is known. */
  readonly speedup?: string;
  /** What speaks for it. */
  readonly lines: readonly string[];
  /** Why it may be wrong. */
  readonly doubt_lines: readonly string[];
  readonly rank?: string;
  readonly claim: string;
  readonly place: {
    readonly image?: string;
    readonly what: {
      readonly kind: string;
      readonly path?: readonly string[];
      readonly name?: string;
      readonly line?: string;
      readonly procedure?: string;
    };
  };
  readonly amount: {
    readonly value: number;
    readonly interval?: readonly [number, number];
    readonly relative_to: unknown;
  };
  readonly evidence: readonly Readonly<Record<string, unknown>>[];
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
  readonly images: readonly string[];
  readonly image: readonly number[];
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

/** Instructions, blocks and edges of a hot procedure, column by column. */
export interface Procedure {
  readonly name: string;
  readonly image: string;
  readonly model: string;
  readonly frequencies: string;
  readonly cycles_per_sample: number | null;
  readonly misses_edges: boolean;
  readonly samples: number;
  readonly files: readonly string[];
  readonly blocks: {
    readonly first: readonly number[];
    readonly end: readonly number[];
    readonly frequency: readonly (number | null)[];
    readonly confidence: readonly (string | null)[];
    readonly doubt: readonly (string | null)[];
  };
  readonly edges: {
    readonly from: readonly (number | null)[];
    readonly to: readonly (number | null)[];
    readonly kind: readonly string[];
    readonly frequency: readonly (number | null)[];
  };
  readonly instructions: {
    readonly address: readonly number[];
    readonly text: readonly string[];
    readonly samples: readonly number[];
    readonly file: readonly (number | null)[];
    readonly line: readonly (number | null)[];
    readonly cycles: readonly (number | null)[];
    readonly best: readonly number[];
    readonly stall: readonly (number | null)[];
    readonly culprits: readonly (readonly Culprit[])[];
  };
}

export interface Culprit {
  readonly cause: string;
  readonly letter: string;
  readonly at: readonly number[];
  readonly most: number | null;
}

/** Waits by slice, the thread that waited and the one that woke it. */
export interface Wakes {
  readonly names: readonly string[];
  readonly slice: readonly number[];
  readonly thread: readonly number[];
  readonly waker: readonly number[];
  readonly value: readonly number[];
  readonly ns: readonly number[];
}

/** A time axis: equal slices of a recording, or the epochs of a database one after the other. */
export interface TimeAxis {
  readonly slice_ns: number;
  readonly slices: number;
  readonly epochs?: readonly { readonly start_unix_ns: number; readonly duration_ns: number }[];
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
  /** Methods that are inlined wherever they occur. */
  readonly inlined: readonly number[];
  /** With threads as the outermost frames. */
  readonly byThread: CallTree;
  /** The methods that stand for threads. */
  readonly threads: readonly number[];
  readonly lines?: Lines;
  readonly code?: { readonly procedures: readonly Procedure[]; readonly notes: readonly string[] };
  readonly timeline?: TimeAxis;
  readonly wakes?: Wakes;
  /** By method: the slice of time that it stands for, or -1. */
  readonly slice: Int32Array;
  readonly leftOut?: { readonly nodes: number; readonly share: number };
}

export interface Page {
  readonly madeBy: string;
  readonly live: boolean;
  readonly profiles: readonly Profile[];
  readonly results: readonly Result[];
  /** Files of a directory that are not shown, each with the reason. */
  readonly notRead: readonly string[];
}

/** The version of the form that this page reads. */
export const SCHEMA = "vitalfew.page/1";

interface RawProfile extends Omit<
  Profile,
  "defaultValue" | "names" | "module" | "modules" | "inlined" | "byThread" | "threads" | "slice" | "leftOut"
> {
  readonly default_value: number;
  readonly methods: {
    readonly name: string[];
    readonly module: number[];
    readonly modules: string[];
    readonly inlined?: number[];
  };
  readonly tree: {
    readonly depth: number[];
    readonly method: number[];
    readonly cost: number[][];
    readonly left_out?: { nodes: number; share: number };
  };
}

/** Reads the document. Throws, with a sentence, on what it is not. */
export function readPage(json: string): Page {
  const raw = JSON.parse(json) as {
    schema?: string;
    made_by?: string;
    live?: boolean;
    profiles?: RawProfile[];
    results?: Result[];
    not_read?: string[];
  };
  if (raw.schema !== SCHEMA) throw new Error(`The data are ${String(raw.schema)}; this page reads ${SCHEMA}.`);
  return {
    madeBy: raw.made_by ?? "",
    live: raw.live ?? false,
    profiles: (raw.profiles ?? []).map(readProfile),
    results: raw.results ?? [],
    notRead: raw.not_read ?? [],
  };
}

function readProfile(raw: RawProfile): Profile {
  const { name: names, module, modules } = raw.methods;
  if (raw.tree.method.some((method) => method >= names.length)) throw new Error(`${raw.name}: a node names no method`);
  const byThread = treeOfColumns(raw.tree.depth, raw.tree.method, raw.tree.cost);
  const threads = names.map((_, method) => method).filter((method) => modules[module[method]!] === "[thread]");
  return {
    name: raw.name,
    format: raw.format,
    notes: raw.notes,
    values: raw.values,
    defaultValue: raw.default_value,
    names,
    module,
    modules,
    inlined: raw.methods.inlined ?? [],
    byThread,
    threads,
    slice: Int32Array.from(names, (name, method) => (modules[module[method]!] === "[slice]" ? Number(name) : -1)),
    ...(raw.facts ? { facts: raw.facts } : {}),
    ...(raw.lines ? { lines: raw.lines } : {}),
    ...(raw.code ? { code: raw.code } : {}),
    ...(raw.timeline ? { timeline: raw.timeline } : {}),
    ...(raw.wakes ? { wakes: raw.wakes } : {}),
    ...(raw.tree.left_out ? { leftOut: raw.tree.left_out } : {}),
  };
}

/** Slices of time, from the first up to and without the last. */
export type Range = readonly [number, number];

/**
 * The tree of one thread (by its method), or of all together, of a range of time or of all, without
 * the frames that stand for threads and times.
 */
export function treeOfThreads(profile: Profile, thread: number | null, range: Range | null = null): CallTree {
  if (profile.threads.length === 0 && !profile.timeline) return profile.byThread;
  const threads = new Set(profile.threads);
  const inside = (method: number) => {
    const slice = profile.slice[method]!;
    if (slice >= 0) return range === null || (slice >= range[0] && slice < range[1]);
    return thread === null || method === thread || !threads.has(method);
  };
  return filtered(
    profile.byThread,
    profile.names.length,
    (method) => !threads.has(method) && profile.slice[method]! < 0,
    inside,
  );
}
