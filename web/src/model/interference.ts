/** Results of `interference run`, and graphs of who waits for whom. No DOM. */
import type { Wakes } from "./data";
import { amount, shortened } from "./format";
import type { GraphEdge, GraphNode } from "./layered";
import { type Wake, wakesIn } from "./timeline";

interface Between {
  readonly estimate: number;
  readonly low: number;
  readonly high: number;
}

/** A loss; the function's part of the threads' time is its `share`. */
interface FunctionLoss {
  readonly share: number;
  readonly loss: Between;
  readonly is_claimed: boolean;
}

interface WaitEnder {
  readonly function: string | null;
  readonly ns: number;
  readonly thread: string | null;
}

export interface TracedFunction {
  readonly name: string;
  readonly image: string;
  readonly loss: FunctionLoss | null;
  readonly locks: readonly (FunctionLoss & { readonly address: number })[];
  readonly cause: string | null;
  readonly waits: readonly {
    readonly kind: string;
    readonly ns: number;
    readonly waits: number;
    readonly ended_by: readonly WaitEnder[];
  }[];
  readonly calls: number;
  readonly period: number;
  readonly mean_ns: number;
  readonly max_ns: number;
  readonly threads: readonly {
    readonly tid: number;
    readonly name: string;
    readonly calls: number;
    readonly total_ns: number;
  }[];
  readonly threads_total: number;
  readonly stacks: readonly { readonly frames: readonly string[]; readonly count: number; readonly mean_ns: number }[];
}

/** What the command says of the data: sentences and names. */
export interface InterferenceWords {
  readonly verdict: string;
  readonly machine: readonly string[];
  readonly contention: string | null;
  /** Causes of losses, in the order of the functions. */
  readonly causes: readonly string[];
  /** What waits are for, by their kinds. */
  readonly waits: Readonly<Record<string, string>>;
}

/** What `interference report --json` prints. */
export interface InterferenceResult {
  readonly duration_ns: number;
  readonly threads: number;
  readonly thread_time_ns: number;
  readonly solo: { readonly verdict: string };
  /** Absent in files of earlier versions. */
  readonly words?: InterferenceWords;
  readonly functions: readonly TracedFunction[];
}

/** The words of a result; of a file without words the names of its data. */
export const wordsOf = ({ words, solo, functions }: Pick<InterferenceResult, "words" | "solo" | "functions">) =>
  words ?? {
    verdict: `${solo.verdict} (an earlier vitalfew made this file, without sentences)`,
    machine: [],
    contention: null,
    causes: functions.map(({ cause }) => cause ?? "not known"),
    waits: {},
  };

const rounded = (part: number) => (100 * part).toFixed(0);

/** 0.1234 as 12 %. */
export const wholePercent = (part: number) => `${rounded(part)}\u00a0%`;

/** A loss in percent, with its interval. */
export const percents = ({ estimate, low, high }: Between) =>
  `${wholePercent(estimate)} (${rounded(low)} to ${rounded(high)})`;

/** Less than this part of the threads' time is left out. */
const LEAST = 0.01;

/** Functions in which the program loses time, each followed by those of its locks. */
export const lossRows = (functions: readonly TracedFunction[], { causes }: Pick<InterferenceWords, "causes">) =>
  functions
    .flatMap((of, at) => {
      const row = { of, cause: causes[at] ?? "not known" };
      return [
        ...(of.loss ? [{ ...row, lock: "", ...of.loss }] : []),
        ...of.locks.map((lock) => ({ ...row, lock: `, lock 0x${lock.address.toString(16)}`, ...lock })),
      ];
    })
    .filter((row) => row.is_claimed);

/** Waits that threads did not ask for, the longest first. */
export const waitRows = ({ functions, thread_time_ns }: Pick<InterferenceResult, "functions" | "thread_time_ns">) =>
  functions
    .flatMap((of) => of.waits.map((waits) => ({ of, part: waits.ns / Math.max(1, thread_time_ns), ...waits })))
    .filter(
      ({ kind, part, ended_by }) =>
        part >= LEAST && kind !== "sleep" && kind !== "other_wait" && (kind !== "pool" || ended_by.length > 0),
    )
    .sort((a, b) => b.ns - a.ns);

/** The function that ended waits, else the thread; empty if neither is known. */
export const enderName = (ender: WaitEnder | undefined) =>
  ender?.function ?? (ender?.thread ? `thread ${ender.thread}` : "");

/** More boxes make no picture that could be read. */
const MOST_ARROWS = 24;
/** Arrows for less than this part of all waiting are left out. */
const LEAST_PART = 0.005;

interface WaitGraph {
  readonly nodes: readonly GraphNode[];
  readonly edges: readonly GraphEdge[];
}

interface Arrow {
  readonly from: string;
  readonly to: string;
  readonly ns: number;
}

function graphOf(arrows: readonly Arrow[]): WaitGraph {
  const all = arrows.reduce((sum, one) => sum + one.ns, 0);
  const shown = arrows
    .filter((one) => one.ns >= LEAST_PART * all)
    .sort((a, b) => b.ns - a.ns)
    .slice(0, MOST_ARROWS);
  const most = Math.max(1, ...shown.map((one) => one.ns));
  const waited = new Map<string, number>();
  for (const { from, to, ns } of shown) {
    waited.set(from, (waited.get(from) ?? 0) + ns);
    if (!waited.has(to)) waited.set(to, 0);
  }
  const longest = Math.max(1, ...waited.values());
  const nodes = [...waited].map(([id, ns]) => ({
    id,
    heat: ns / longest,
    lines: [shortened(id, 40), ...(ns > 0 ? [`waited ${amount(ns, "nanoseconds")}`] : [])],
  }));
  const edges = shown.map((one) => ({
    from: one.from,
    to: one.to,
    label: amount(one.ns, "nanoseconds"),
    weight: Math.sqrt(one.ns / most),
  }));
  return { nodes, edges };
}

/** From functions that wait to those that ended their waits. */
export const waitGraph = (functions: readonly TracedFunction[]) =>
  graphOf(
    functions.flatMap((of) =>
      of.waits.flatMap(({ ended_by }) =>
        ended_by
          .map((ender) => ({ from: of.name, to: enderName(ender), ns: ender.ns }))
          .filter(({ to, ns }) => to !== "" && ns > 0),
      ),
    ),
  );

/**
 * From threads that waited to those that woke them; others of one name are one, and all where many
 * waited.
 */
export function wakeGraph(wakes: Wakes): WaitGraph & { readonly wakes: readonly Wake[] } {
  const found = wakesIn(wakes, null);
  const waiting = new Set(found.map((one) => one.thread));
  const named = (name: string) => (waiting.size <= 12 && waiting.has(name) ? name : name.replace(/ \(\d+\)$/, ""));
  const sums = new Map<string, Arrow>();
  for (const { thread, waker, ns } of found) {
    const [from, to] = [named(thread), named(waker)];
    const key = JSON.stringify([from, to]);
    sums.set(key, { from, to, ns: (sums.get(key)?.ns ?? 0) + ns });
  }
  return { ...graphOf([...sums.values()]), wakes: found.slice(0, 100) };
}
