/** Who did what when: by thread and slice of time. No DOM. */
import type { Profile, Range, TimeAxis, Wakes } from "./data";
import { amount } from "./format";

/** Nanoseconds of a slice: epochs are not equally long. */
export const sliceLength = (axis: TimeAxis, slice: number) => axis.epochs?.[slice]?.duration_ns ?? axis.slice_ns;

/** A moment in UTC, to the second. */
export const utcTime = (unixNs: number) => new Date(unixNs / 1e6).toISOString().replace("T", " ").slice(0, 19);

/** When slices begin and end, as text. */
export function rangeText(axis: TimeAxis, [from, to]: Range): string {
  const [first, last] = [axis.epochs?.[from], axis.epochs?.[to - 1]];
  if (first && last) return `${utcTime(first.start_unix_ns)} to ${utcTime(last.start_unix_ns + last.duration_ns).slice(11)} UTC`;
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

/** A wait counts in the slice in which it ended. It went on until there: what is more than a slice holds was in the slices before. */
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

/** The threads of a profile with a time axis, those that ran most first. */
export function threadTimes(profile: Profile): ThreadTime[] {
  const axis = profile.timeline;
  if (!axis) return [];
  const tree = profile.byThread;
  // Samples of time at a rate say how much of a CPU a thread had.
  const clock = profile.values.findIndex((value) => value.per_second !== undefined);
  const found: ThreadTime[] = [];
  for (let top = 1; top < tree.method.length; top = tree.end[top]!) {
    const method = tree.method[top]!;
    const sums = { running: new Float64Array(axis.slices), ready: new Float64Array(axis.slices), blocked: new Float64Array(axis.slices) };
    for (let node = top + 1; node < tree.end[top]!; node = tree.end[node]!) {
      const slice = profile.slice[tree.method[node]!]!;
      if (slice < 0 || slice >= axis.slices) continue;
      profile.values.forEach((value, index) => {
        const total = tree.total[index]![node]!;
        if (value.name === "run-queue") sums.ready[slice]! += total;
        else if (value.name === "off-cpu") sums.blocked[slice]! += total;
        else if (index === clock) sums.running[slice]! += (total * 1e9) / value.per_second!;
      });
    }
    // In epochs threads of one name can be one, and run on several CPUs; what a wait lasted before its epoch is not known.
    const times = axis.epochs ? sums : { running: sums.running.map((ns) => Math.min(ns, axis.slice_ns)), ready: spreadBack(sums.ready, axis.slice_ns), blocked: spreadBack(sums.blocked, axis.slice_ns) };
    found.push({ method, name: profile.names[method]!, ...times });
  }
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

/** Who was woken by whom in a range, or ever, after how much waiting in all; the longest first. */
export function wakesIn(wakes: Wakes | undefined, range: Range | null, only: string | null = null): Wake[] {
  if (!wakes) return [];
  const sums = new Map<number, number>();
  wakes.slice.forEach((slice, row) => {
    if (range && (slice < range[0] || slice >= range[1])) return;
    if (only !== null && wakes.names[wakes.thread[row]!] !== only) return;
    const key = wakes.thread[row]! * wakes.names.length + wakes.waker[row]!;
    sums.set(key, (sums.get(key) ?? 0) + wakes.ns[row]!);
  });
  const found = [...sums].map(([key, ns]) => ({ thread: wakes.names[Math.floor(key / wakes.names.length)]!, waker: wakes.names[key % wakes.names.length]!, ns }));
  return found.sort((a, b) => b.ns - a.ns || (a.thread < b.thread ? -1 : 1));
}

/** The range between two slices, in whichever order. */
export function rangeBetween(a: number, b: number, slices: number): Range {
  const [from, to] = a < b ? [a, b] : [b, a];
  return [Math.max(0, from), Math.min(slices, to + 1)];
}
