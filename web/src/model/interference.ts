/** Results of `interference run`, and graphs of who waits for whom. No DOM. */
import type { Wakes } from "./data";
import { amount, shortened } from "./format";
import type { GraphEdge, GraphNode } from "./layered";
import { type Wake, wakesIn } from "./timeline";

export interface Between {
  readonly estimate: number;
  readonly low: number;
  readonly high: number;
}

export interface Cause {
  readonly kind: string;
  readonly share: number;
  readonly measured: boolean;
  readonly evidence: readonly string[];
  /** The blocks and threads that ended the waits; not in results of earlier versions. */
  readonly ended_by?: readonly { readonly block: string; readonly ns: number; readonly thread: string | null }[];
}

/** A function with what it loses, as in `interference report --json`. */
export interface Block {
  readonly name: string;
  readonly image: string;
  readonly sci: Between;
  readonly program: Between;
  readonly standing?: string;
  /** The function whose loss it has, too. */
  readonly same_as?: string | null;
  readonly blocked: number;
  readonly scheduler: number;
  readonly running: number;
  readonly calls: number;
  readonly mean_ns: number;
  readonly max_ns: number;
  readonly floor: { readonly ns: number; readonly quality: string; readonly reasons: readonly string[] };
  readonly causes: readonly Cause[];
  readonly doubts: readonly { readonly kind: string; readonly text: string }[];
  readonly curve: readonly { readonly up_to_ns: number; readonly calls: number }[];
  readonly threads: readonly {
    readonly tid: number;
    readonly name: string;
    readonly sci: number;
    readonly calls: number;
    readonly min_ns: number;
  }[];
  readonly stacks: readonly { readonly frames: readonly string[]; readonly count: number; readonly mean_ns: number }[];
}

/** What a function's standing says, in the order in which functions are listed. */
const STANDINGS: Readonly<Record<string, string>> = {
  interference: "threads of the program slow them down",
  for_work: "wait for the work of threads that are busy",
  machine: "other programs left them no CPU",
  varies: "take different times, and nothing says that threads are the reason",
  outside: "wait for what is outside of the program",
  idle: "have nothing to do",
  same: "have the loss of a function that they call",
  slight: "lose next to nothing",
};

/** Blocks that stand next to each other by their standing, each with what it says. */
export function blocksByStanding(blocks: readonly Block[]): { readonly says: string; readonly blocks: Block[] }[] {
  const made: { says: string; blocks: Block[] }[] = [];
  for (const block of blocks) {
    const says = STANDINGS[block.standing ?? ""] ?? "";
    if (made.at(-1)?.says === says) made.at(-1)!.blocks.push(block);
    else made.push({ says, blocks: [block] });
  }
  return made;
}

/** More boxes make no picture that could be read. */
const MOST_ARROWS = 24;
/** Arrows for less than this part of all waiting are left out. */
const LEAST_PART = 0.005;

export interface WaitGraph {
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
export function waitGraph(blocks: readonly Block[]): WaitGraph {
  return graphOf(
    blocks.flatMap((block) =>
      block.causes.flatMap((cause) =>
        (cause.ended_by ?? [])
          .filter((one) => one.ns > 0)
          .map((one) => ({ from: block.name, to: one.block, ns: one.ns })),
      ),
    ),
  );
}

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

/**
 * Executions in the order of their durations, as steps: from which to which part of them, and how
 * long they took at most.
 */
export function sortedSteps(
  curve: Block["curve"],
): { readonly from: number; readonly to: number; readonly ns: number }[] {
  const all = curve.reduce((sum, one) => sum + one.calls, 0);
  let before = 0;
  return curve
    .filter((one) => one.calls > 0)
    .map((one) => {
      const step = { from: before / all, to: (before + one.calls) / all, ns: one.up_to_ns };
      before += one.calls;
      return step;
    });
}
