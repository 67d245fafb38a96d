/** Results of `interference run`, and graphs of who waits for whom. No DOM. */
import type { Wakes } from "./data";
import { amount, counted, grouped, shortened } from "./format";
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
  readonly shared_line?: { readonly variable: string | null; readonly is_false: boolean };
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

export interface SoloReport {
  readonly verdict: string;
  readonly intervals: number;
  readonly given_up: number;
  readonly threads: number;
  readonly program: { readonly loss: Between } | null;
  readonly refused: string | null;
}

/** What `interference report --json` prints. */
export interface InterferenceResult {
  readonly duration_ns: number;
  readonly threads: number;
  readonly thread_time_ns: number;
  readonly machine: {
    readonly ready_ns: number;
    readonly taken_ns: number;
    readonly throttled_ns: number;
    readonly others: readonly { readonly pid: number; readonly name: string; readonly ns: number }[];
    readonly limit: { readonly group: string } | null;
  };
  readonly solo: SoloReport;
  /** The loss in all functions together in which threads contend for locks. */
  readonly contention?:
    (FunctionLoss & { readonly function: string; readonly cause: string; readonly functions: number }) | null;
  readonly functions: readonly TracedFunction[];
}

/** Labels of causes and waits, as `CauseKind::label` has them. */
export const CAUSE_LABELS: Readonly<Record<string, string>> = {
  lock: "lock contention",
  barrier: "barrier wait",
  pool: "waiting for other threads' work",
  disk: "disk wait",
  network: "network wait",
  page_fault: "page faults",
  sleep: "sleeping",
  other_wait: "waiting, for what is not known",
  allocator: "lock contention in the allocator",
  address_space: "contention for the process's memory map",
  shared_line: "shared cache line",
};

const rounded = (part: number) => (100 * part).toFixed(0);

/** 0.1234 as 12 %. */
export const wholePercent = (part: number) => `${rounded(part)}\u00a0%`;

/** A loss in percent, with its interval. */
export const percents = ({ estimate, low, high }: Between) =>
  `${wholePercent(estimate)} (${rounded(low)} to ${rounded(high)})`;

/** The verdict on the program, in the words of `interference report`. */
export function verdictSentence(solo: SoloReport): string {
  const threads = counted(Math.round(solo.threads), "busy thread");
  if (solo.verdict === "interference" && solo.program) {
    const { estimate, low, high } = solo.program.loss;
    const speed = percents({ estimate: 1 - estimate, low: 1 - high, high: 1 - low });
    return `${threads}: each runs at ${speed} of the speed that it has alone`;
  }
  switch (solo.verdict) {
    case "not_found":
      return (
        `${threads}: no interference found; they lose at most ` +
        `${wholePercent(Math.max(0, solo.program?.loss.high ?? 0))} of their time to each other`
      );
    case "dependence":
      return `${threads} that depend on each other: alone, each soon waits. That is dependence, not interference`;
    case "one_thread":
      return "one thread is busy at a time: threads cannot slow each other down";
  }
  const why =
    solo.intervals + solo.given_up > 0
      ? `too few executions ended while a thread ran alone (${grouped(solo.intervals)} intervals, ` +
        `${grouped(solo.given_up)} given up); a longer run has more`
      : "no thread ran alone";
  return `interference was not measured: ${solo.refused ?? why}`;
}

/** The loss to contention for locks in a sentence; empty if none is claimed. */
export function contentionSentence({ contention }: Pick<InterferenceResult, "contention">): string {
  if (!contention?.is_claimed) return "";
  const others = contention.functions > 1 ? ` and ${counted(contention.functions - 1, "other function")}` : "";
  const cause = CAUSE_LABELS[contention.cause] ?? "not known";
  return `lost to ${cause}: ${percents(contention.loss)} of the threads' time, in ${contention.function}${others}`;
}

/** Less than this part of the threads' time is left out. */
const LEAST = 0.01;

/** What kept ready threads from CPUs, in the words of `interference report`. */
export function machineSentences({
  machine,
  thread_time_ns,
}: Pick<InterferenceResult, "machine" | "thread_time_ns">): string[] {
  const { ready_ns, taken_ns, throttled_ns, others, limit } = machine;
  const all = others.reduce((sum, one) => sum + one.ns, 0);
  const users = others.slice(0, 3).map(({ pid, name, ns }) => {
    // The kernel has no number for it in this PID namespace.
    const where = pid === 0 ? "outside of this container" : `process ${pid}`;
    return `${name} (${where}) ${wholePercent(ns / Math.max(1, all))}`;
  });
  const sentence = (ns: number, before: string, after: string) => {
    const part = ns / Math.max(1, thread_time_ns);
    return part >= LEAST ? [`${before} ${wholePercent(part)} of the threads' time${after}`] : [];
  };
  return [
    ...sentence(ready_ns - taken_ns - throttled_ns, "run queue:", ", because there are more threads than CPUs"),
    ...sentence(taken_ns, "other programs had the CPUs for", `: ${users.join(", ")}`),
    ...(limit ? sentence(throttled_ns, `the control group ${limit.group} was at its CPU limit for`, "") : []),
  ];
}

/** The cause of a function's loss; of a shared cache line with its variable. */
export function causeText({ cause, shared_line }: Pick<TracedFunction, "cause" | "shared_line">): string {
  const label = CAUSE_LABELS[cause ?? ""] ?? "not known";
  if (cause !== "shared_line" || !shared_line) return label;
  return `${label}${shared_line.is_false ? " (false sharing)" : ""}: ${shared_line.variable ?? "heap memory"}`;
}

/** Functions in which the program loses time, each followed by those of its locks. */
export const lossRows = (functions: readonly TracedFunction[]) =>
  functions
    .flatMap((of) => [
      ...(of.loss ? [{ of, lock: "", ...of.loss }] : []),
      ...of.locks.map((lock) => ({ of, lock: `, lock 0x${lock.address.toString(16)}`, ...lock })),
    ])
    .filter((row) => row.is_claimed)
    .map((row) => ({ ...row, cause: causeText(row.of) }));

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
