/** What each thread did in each slice of time. No DOM. */
import type { Profile, Range, TimeAxis, Wakes } from "./data";
import { amount } from "./format";

/** Nanoseconds of a slice: epochs are not equally long. */
export const sliceLength = (axis: TimeAxis, slice: number) => axis.epochs?.[slice]?.duration_ns ?? axis.slice_ns;

/** A moment in UTC, to the second. */
export const utcTime = (unixNs: number) => new Date(unixNs / 1e6).toISOString().replace("T", " ").slice(0, 19);

/** When slices begin and end, as text. */
export function rangeText(axis: TimeAxis, [from, to]: Range): string {
  const [first, last] = [axis.epochs?.[from], axis.epochs?.[to - 1]];
  if (first && last)
    return `${utcTime(first.start_unix_ns)} to ${utcTime(last.start_unix_ns + last.duration_ns).slice(11)} UTC`;
  return `${amount(from * axis.slice_ns, "nanoseconds")} to ${amount(to * axis.slice_ns, "nanoseconds")}`;
}

export interface ThreadTime {
  /** The method that stands for the thread. */
  readonly method: number;
  readonly name: string;
  /** Nanoseconds on a CPU in each slice, as far as samples say it. */
  readonly running: Float64Array;
  /** Nanoseconds in each slice: ready, but without a CPU. */
  readonly ready: Float64Array;
  /** Nanoseconds in each slice: blocked. */
  readonly blocked: Float64Array;
}

/**
 * A wait counts in the slice in which it ended. It went on until there: what is more than a slice
 * holds was in the slices before.
 */
export function spreadBack(ns: Float64Array, length: number): Float64Array {
  const spread = Float64Array.from(ns);
  for (let slice = spread.length - 1; slice > 0; slice--) {
    const more = spread[slice]! - length;
    if (more <= 0) continue;
    spread[slice] = length;
    spread[slice - 1]! += more;
  }
  if (spread.length > 0) spread[0] = Math.min(spread[0]!, length);
  return spread;
}

/**
 * Values that are time in which a thread was blocked: of our recordings, and of Java's flight
 * recorder.
 */
const BLOCKED = new Set([
  "off-cpu",
  "native locks",
  "monitor enter",
  "monitor wait",
  "park",
  "sleep",
  "socket read",
  "socket write",
  "file read",
  "file write",
]);

export interface RunningScale {
  /** The value that says when a thread ran. */
  readonly value: number;
  /** Nanoseconds that one of its units stands for. */
  readonly ns: number;
  /** That is not known: the busiest slice of a thread is taken for all of it. */
  readonly relative: boolean;
}

/**
 * How a profile says when threads ran: by samples at a rate, by measured time, or else only by
 * where there are most samples.
 */
export function runningScale(profile: Profile): RunningScale {
  const clock = profile.values.findIndex((value) => value.per_second !== undefined);
  if (clock >= 0) return { value: clock, ns: 1e9 / profile.values[clock]!.per_second!, relative: false };
  const timed = profile.values.findIndex(
    (value) => value.unit === "nanoseconds" && !BLOCKED.has(value.name) && value.name !== "run-queue",
  );
  if (timed >= 0) return { value: timed, ns: 1, relative: false };
  let most = 0;
  forEachSlice(profile, (_, __, node) => (most = Math.max(most, profile.byThread.total[profile.defaultValue]![node]!)));
  return { value: profile.defaultValue, ns: (profile.timeline?.slice_ns ?? 0) / (most || 1), relative: true };
}

/**
 * Calls with each node that stands for a slice of a thread. Stacks that no thread is known of are
 * of one without a method.
 */
function forEachSlice(profile: Profile, each: (thread: number, slice: number, node: number) => void): void {
  const tree = profile.byThread;
  const sliceOf = (node: number) => profile.slice[tree.method[node]!]!;
  for (let top = 1; top < tree.method.length; top = tree.end[top]!) {
    if (sliceOf(top) >= 0) each(-1, sliceOf(top), top);
    else
      for (let node = top + 1; node < tree.end[top]!; node = tree.end[node]!)
        if (sliceOf(node) >= 0) each(tree.method[top]!, sliceOf(node), node);
  }
}

/** The threads of a profile with a time axis, those that ran most first. */
export function threadTimes(profile: Profile, scale = runningScale(profile)): ThreadTime[] {
  const axis = profile.timeline;
  if (!axis) return [];
  const tree = profile.byThread;
  const sums = new Map<number, Pick<ThreadTime, "running" | "ready" | "blocked">>();
  forEachSlice(profile, (thread, slice, node) => {
    if (slice >= axis.slices) return;
    const sum = sums.get(thread) ?? {
      running: new Float64Array(axis.slices),
      ready: new Float64Array(axis.slices),
      blocked: new Float64Array(axis.slices),
    };
    sums.set(thread, sum);
    profile.values.forEach((value, index) => {
      const total = tree.total[index]![node]!;
      if (value.name === "run-queue") sum.ready[slice]! += total;
      else if (BLOCKED.has(value.name)) sum.blocked[slice]! += total;
      else if (index === scale.value) sum.running[slice]! += total * scale.ns;
    });
  });
  const found = [...sums].map(([method, sum]): ThreadTime => {
    // In epochs threads of one name can be one, and run on several CPUs; what a wait lasted before
    // its epoch is not known.
    const times = axis.epochs
      ? sum
      : {
          running: sum.running.map((ns) => Math.min(ns, axis.slice_ns)),
          ready: spreadBack(sum.ready, axis.slice_ns),
          blocked: spreadBack(sum.blocked, axis.slice_ns),
        };
    return { method, name: profile.names[method] ?? "all threads", ...times };
  });
  return found.sort((a, b) => sumOf(b.running) - sumOf(a.running) || sumOf(b.blocked) - sumOf(a.blocked));
}

/** The sum over a range of slices, or over all. */
export function sumOf(ns: Float64Array, range: Range | null = null): number {
  let sum = 0;
  for (let slice = range?.[0] ?? 0; slice < (range?.[1] ?? ns.length); slice++) sum += ns[slice]!;
  return sum;
}

export interface Wake {
  readonly thread: string;
  readonly waker: string;
  readonly ns: number;
}

/** The pairs of a thread and its waker, in a range or ever, with all the waiting; longest first. */
export function wakesIn(wakes: Wakes | undefined, range: Range | null, only: string | null = null): Wake[] {
  if (!wakes) return [];
  const sums = new Map<number, number>();
  wakes.slice.forEach((slice, row) => {
    if (range && (slice < range[0] || slice >= range[1])) return;
    if (only !== null && wakes.names[wakes.thread[row]!] !== only) return;
    const key = wakes.thread[row]! * wakes.names.length + wakes.waker[row]!;
    sums.set(key, (sums.get(key) ?? 0) + wakes.ns[row]!);
  });
  const found = [...sums].map(([key, ns]) => ({
    thread: wakes.names[Math.floor(key / wakes.names.length)]!,
    waker: wakes.names[key % wakes.names.length]!,
    ns,
  }));
  return found.sort((a, b) => b.ns - a.ns || (a.thread < b.thread ? -1 : 1));
}

/** The range between two slices, in whichever order. */
export function rangeBetween(a: number, b: number, slices: number): Range {
  const [from, to] = a < b ? [a, b] : [b, a];
  return [Math.max(0, from), Math.min(slices, to + 1)];
}
