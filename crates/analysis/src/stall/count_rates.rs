//! How often counted blocks run in a second of their procedure's own time.
//!
//! Counting slows down what is counted, so that CPU time is corrected by the cost of hits and
//! samples. Time is compared as the procedure's *own* time, by samples: the recording, whose
//! samples are to be divided by the executions, may have spent more or less of its time elsewhere.

use super::count_plan::{CORRECTION, CountPlan};
use machine::{
    CountedLoop, Equivalence, FlowGraph, Loops, Register, StepCounter, loop_exit,
    starts_at_constant,
};
use profile::{CountSample, CountWindow, ExecutionCounts};
use std::ops::RangeInclusive;

/// Least executions that make a rate, of a uprobe and of a register.
const LEAST_HITS: f64 = 30.0;
const LEAST_ROUNDS: f64 = 1000.0;

/// Share of the CPU time that hits may take where a block is counted: beyond, the rest is not known
/// well enough.
const MOST_SLOWED: f64 = 0.8;

/// Share of the CPU time up to which hits do not distort the samples.
const CALM: f64 = 0.05;

/// Least standard deviation of the logarithm of a rate: from one run to the next, kernels of known
/// rounds differ by as much (`benches/counted_kernels.py`).
const FLOOR: f64 = 0.02;

/// Least stretches between samples that tell whether a register counts, and the factor by which the
/// middle half of their rates may differ.
const LEAST_STRETCHES: usize = 40;
const MOST_APART: f64 = 1.35;
/// Least part of the usual rate in a stretch that counts.
const LEAST_KEPT: f64 = 0.5;

/// Greatest share of a loop's time in which it may have been entered again.
const MOST_LEFT_OUT: f64 = 0.5;

/// Greatest part by which a counter's values may be uneven beyond chance, where a loop makes the
/// same number of rounds each time.
const UNEVEN: f64 = 0.03;

/// Least times that a loop was entered again between samples that tell how many rounds it makes.
const LEAST_ENTRIES: usize = 100;

/// Parts whose differences give the error.
const PARTS: usize = 16;

/// How often a block runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockRate {
    /// The block.
    pub block: usize,
    /// The loop whose own time counts; `None` for the whole procedure.
    pub within: Option<usize>,
    /// Executions for each second of own time.
    pub per_second: f64,
    /// Standard deviation of its logarithm.
    pub deviation: f64,
    /// Executions that were counted.
    pub executions: f64,
}

/// Sums of a part of the counted time: executions, corrected time in ns, and error by correction.
#[derive(Clone, Copy, Default)]
struct Part {
    executions: f64,
    ns: f64,
    hit_ns: f64,
    /// Time in the scope by samples, and raw time in which they were taken.
    own_ns: f64,
    raw_ns: f64,
}

impl std::iter::Sum for Part {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |sum, one| Self {
            executions: sum.executions + one.executions,
            ns: sum.ns + one.ns,
            hit_ns: sum.hit_ns + one.hit_ns,
            own_ns: sum.own_ns + one.own_ns,
            raw_ns: sum.raw_ns + one.raw_ns,
        })
    }
}

/// Returns the rates of the blocks that a plan counted.
pub fn block_rates(
    plan: &CountPlan,
    graph: &FlowGraph,
    loops: &Loops,
    counts: &ExecutionCounts,
) -> Vec<BlockRate> {
    let mut rates = Vec::new();
    for counter in &plan.counters {
        let (parts, left_out) = counter_parts(counter, plan, graph, loops, counts);
        let rate = rate_of_parts(&parts).filter(|(.., executions)| *executions >= LEAST_ROUNDS);
        rates.extend(rate.map(|(per_second, deviation, executions)| BlockRate {
            block: counter.block,
            within: Some(counter.around),
            per_second,
            deviation: f64::hypot(deviation, left_out),
            executions,
        }));
    }
    for (place, counted) in plan.places.iter().enumerate() {
        let windows = counts.threads.iter().flatten();
        let hits = windows.filter_map(|window| window.hits.get(place)?.as_ref());
        if hits.map(|hits| hits.count as f64).sum::<f64>() < LEAST_HITS {
            continue;
        }
        let rate = rate_of_parts(&place_parts(place, counts));
        rates.extend(rate.map(|(per_second, deviation, executions)| BlockRate {
            block: counted.entered.map_or(counted.block, |one| one.before),
            within: None,
            per_second,
            deviation,
            executions,
        }));
    }
    rates
}

/// Returns the seconds that the procedure itself took while it was counted, without the cost of
/// hits and samples. Times between windows, in which uprobes are set, count as those in windows.
pub fn own_seconds(counts: &ExecutionCounts) -> f64 {
    let is_sampled_well = sampled_well(counts);
    let mut sum = Part::default();
    for thread in &counts.threads {
        let covered: u64 = thread.iter().map(|window| window.cpu_ns).sum();
        let all = thread.last().map_or(0, |last| last.begin_ns + last.cpu_ns);
        let slowed = thread
            .iter()
            .map(|window| window.cpu_ns as f64 - free_time(window, counts));
        let samples = thread
            .iter()
            .map(|window| sample_time(window, counts))
            .sum::<f64>();
        let between = all.saturating_sub(covered) as f64;
        let share = samples / covered.max(1) as f64;
        sum.ns += all as f64 - slowed.sum::<f64>() - between * share;
        for window in thread.iter().filter(|window| is_sampled_well(window)) {
            sum.own_ns += own_time(window);
            sum.raw_ns += window.sampled_ns;
        }
    }
    1e-9 * sum.ns * sum.own_ns / sum.raw_ns.max(1.0)
}

/// Returns a test for windows whose samples hits do not distort. A program that is always disturbed
/// has no better ones.
fn sampled_well(counts: &ExecutionCounts) -> impl Fn(&CountWindow) -> bool {
    let is_calm = |window: &CountWindow| hit_time(window, counts) <= CALM * window.cpu_ns as f64;
    let is_ever_calm = counts.threads.iter().flatten().any(is_calm);
    move |window| !is_ever_calm || is_calm(window)
}

/// Returns the time of a window without that of hits and samples.
fn free_time(window: &CountWindow, counts: &ExecutionCounts) -> f64 {
    let slowed = hit_time(window, counts) + sample_time(window, counts);
    (window.cpu_ns as f64 - slowed).max(0.0)
}

/// Returns the time that samples took in a window.
fn sample_time(window: &CountWindow, counts: &ExecutionCounts) -> f64 {
    window.sampled_ns / window.period_ns * counts.sample_ns
}

/// Returns the time of a window in the procedure, by samples.
fn own_time(window: &CountWindow) -> f64 {
    let own = window.samples.iter().filter(|one| one.into.is_some());
    own.count() as f64 * window.period_ns
}

/// Returns executions per second of own time, the standard deviation of the logarithm, and the
/// executions.
fn rate_of_parts(parts: &[Part]) -> Option<(f64, f64, f64)> {
    let rate = |left_out: Option<usize>| {
        let all = parts.iter().enumerate();
        let kept = all.filter(|(index, _)| Some(*index) != left_out);
        let sum: Part = kept.map(|(_, part)| *part).sum();
        let own = sum.own_ns / sum.raw_ns;
        (sum, 1e9 * sum.executions / sum.ns / own)
    };
    let (sum, per_second) = rate(None);
    let slowed = sum.hit_ns / (sum.hit_ns + sum.ns);
    if slowed > MOST_SLOWED || !per_second.is_finite() {
        return None;
    }
    let n = parts.len() as f64;
    let squares = (0..parts.len()).map(|part| {
        let apart = (rate(Some(part)).1 / per_second).ln();
        apart * apart
    });
    let jackknife = (n - 1.0) / n * squares.sum::<f64>();
    let correction = CORRECTION * sum.hit_ns / sum.ns;
    let variance = jackknife + correction * correction + FLOOR * FLOOR;
    variance
        .is_finite()
        .then(|| (per_second, variance.sqrt(), sum.executions))
}

/// Returns the time that hits took in a window.
fn hit_time(window: &CountWindow, counts: &ExecutionCounts) -> f64 {
    let each = window.hits.iter().zip(&counts.hit_ns);
    each.map(|(hits, ns)| hits.as_ref().map_or(0.0, |hits| hits.count as f64 * ns))
        .sum()
}

/// Adds up the windows in which a place was counted, and the share of own time in calm windows.
fn place_parts(place: usize, counts: &ExecutionCounts) -> Vec<Part> {
    let windows: Vec<&CountWindow> = counts.threads.iter().flatten().collect();
    let mut parts = vec![Part::default(); PARTS.min(windows.len()).max(1)];
    let each = windows.len().div_ceil(parts.len()).max(1);
    let is_sampled_well = sampled_well(counts);
    for (index, window) in windows.iter().enumerate() {
        let part = &mut parts[index / each];
        if let Some(Some(hits)) = window.hits.get(place) {
            part.executions += hits.count as f64;
            part.ns += free_time(window, counts);
            part.hit_ns += hit_time(window, counts);
        }
        if is_sampled_well(window) {
            part.own_ns += own_time(window);
            part.raw_ns += window.sampled_ns;
        }
    }
    parts.retain(|part| part.raw_ns > 0.0);
    parts
}

/// How often a loop goes round each time that it is entered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoopRounds {
    /// The edges by which it goes on and by which it ends.
    pub edges: (usize, usize),
    /// The mean rounds of an entry.
    pub rounds: f64,
    /// Standard deviation of their logarithm.
    pub deviation: f64,
}

/// Returns the rounds of the loops that were counted where they are entered, and of those that make
/// the same number each time.
pub fn loop_rounds(
    plan: &CountPlan,
    graph: &FlowGraph,
    loops: &Loops,
    classes: &Equivalence,
    counts: &ExecutionCounts,
) -> Vec<LoopRounds> {
    let places = plan.places.iter().enumerate();
    let entered = places.filter_map(|(place, counted)| Some((place, counted.entered?)));
    let rounds = entered.filter_map(|(place, entered)| {
        let windows = counts.threads.iter().flatten();
        let hits = windows.filter_map(|window| window.hits.get(place)?.as_ref());
        let (rounds, deviation) = mean_rounds(&entered, hits.flat_map(|hits| &hits.registers))?;
        Some(LoopRounds {
            edges: entered.edges,
            rounds,
            deviation,
        })
    });
    let mut rounds: Vec<LoopRounds> = rounds.collect();
    for counter in &plan.counters {
        let equal = equal_rounds(counter, graph, loops, classes, counts);
        let is_new = |one: &LoopRounds| rounds.iter().all(|known| known.edges != one.edges);
        let new = equal.filter(is_new);
        rounds.extend(new);
    }
    rounds
}

/// Returns the rounds of a loop that makes the same number each time: at samples, its counter then
/// has all values between its first and its last one equally often. A counter that begins
/// elsewhere each time, as a pointer to rows, would have those of all rows.
fn equal_rounds(
    counter: &StepCounter,
    graph: &FlowGraph,
    loops: &Loops,
    classes: &Equivalence,
    counts: &ExecutionCounts,
) -> Option<LoopRounds> {
    let edges = loop_exit(graph, loops, counter.around)?;
    let last = graph.edges[edges.1].from?;
    let class = classes.blocks[counter.block];
    let is_each_round = class == classes.blocks[last] || class == classes.edges[edges.0];
    if !is_each_round || !starts_at_constant(graph, loops, counter) {
        return None;
    }
    let step = i128::from(counter.step.unsigned_abs());
    let value = |sample: &CountSample| {
        let block = block_at(graph, sample.into?)?;
        let value = *sample
            .registers
            .get(usize::from(counter.register.number()))?;
        let value = i128::from(value) * i128::from(counter.step.signum());
        loops.has_block(counter.around, block).then_some(value)
    };
    let in_threads = counts.threads.iter().map(|thread| {
        let samples = thread.iter().flat_map(|window| &window.samples);
        samples.filter_map(value).collect::<Vec<_>>()
    });
    let in_threads: Vec<Vec<i128>> = in_threads.collect();
    let first = *in_threads.iter().flatten().min()?;
    let entries = in_threads.iter().flat_map(|values| values.windows(2));
    let entries = entries.filter(|pair| pair[1] < pair[0]).count();
    let all = in_threads.iter().flatten().map(|value| value - first);
    if entries < LEAST_ENTRIES || all.clone().any(|by| by % step != 0) {
        return None;
    }
    let mut done: Vec<f64> = all.map(|by| (by / step) as f64).collect();
    done.sort_by(f64::total_cmp);
    let n = done.len() as f64;
    let rounds = 2.0 * done.iter().sum::<f64>() / n + 1.0;
    // The distance of Kolmogorov and Smirnov; a counter has whole values. Rounds that take longer
    // at one end of the loop's data make it greater, different numbers of rounds by far more.
    let apart = done.iter().zip(1..).map(|(value, number)| {
        let expected = (value + 0.5) / rounds;
        (f64::from(number) / n - expected).abs()
    });
    let apart = apart.fold(0.0, f64::max);
    let by_last = ((done.last()? + 1.0) / rounds).ln().abs();
    let is_equal = apart <= UNEVEN + 1.63 / n.sqrt() + 1.0 / rounds && by_last <= 2.0 * UNEVEN;
    let sampled = (1.0 / (3.0 * n) + FLOOR * FLOOR).sqrt();
    is_equal.then_some(LoopRounds {
        edges,
        rounds,
        deviation: sampled.hypot(0.5 / rounds).hypot(by_last / 2.0),
    })
}

/// Returns the mean rounds of a loop, and the standard deviation of its logarithm. `None` if it is
/// entered too rarely, or once counts past its limit.
fn mean_rounds<'a>(
    entered: &CountedLoop,
    registers: impl Iterator<Item = &'a [u64; 16]>,
) -> Option<(f64, f64)> {
    let rounds = registers.map(|one| entered.rounds_from(one).map(|rounds| rounds as f64));
    let rounds: Vec<f64> = rounds.collect::<Option<_>>()?;
    let n = rounds.len() as f64;
    let mean = rounds.iter().sum::<f64>() / n;
    let squares: f64 = rounds.iter().map(|one| (one / mean - 1.0).powi(2)).sum();
    let deviation = (squares / n / (n - 1.0) + FLOOR * FLOOR).sqrt();
    (n >= LEAST_HITS).then_some((mean, deviation))
}

/// Adds up the stretches between samples in a loop, and returns the share of the time that was left
/// out. Empty if it is not known that the loop ran on, nor do the register's values lie on a line:
/// the loop is left and entered again too soon.
fn counter_parts(
    counter: &StepCounter,
    plan: &CountPlan,
    graph: &FlowGraph,
    loops: &Loops,
    counts: &ExecutionCounts,
) -> (Vec<Part>, f64) {
    let found = loop_stretches(counter, plan, graph, loops, counts);
    let stretches: Vec<Part> = found.iter().map(|(part, _)| *part).collect();
    let certain = found.iter().filter(|(_, is_certain)| *is_certain);
    let certain: Vec<Part> = certain.map(|(part, _)| *part).collect();
    let time = |of: &[Part]| of.iter().map(|one| one.raw_ns).sum::<f64>();
    let left_out = 1.0 - time(&certain) / time(&stretches).max(1.0);
    if certain.len() >= LEAST_STRETCHES && left_out < MOST_LEFT_OUT {
        return (in_parts(&certain), left_out);
    }
    let longest = stretches.iter().map(|one| one.raw_ns).fold(0.0, f64::max);
    // A loop that ends between samples of the usual period may not between dense ones.
    let dense = stretches.iter().filter(|one| one.raw_ns < longest / 4.0);
    let dense: Vec<Part> = dense.copied().collect();
    let Some((kept, left_out)) = on_a_line(&stretches).or_else(|| on_a_line(&dense)) else {
        return (Vec::new(), 0.0);
    };
    (in_parts(&kept), left_out)
}

/// Adds up stretches in as many parts as give the error.
fn in_parts(stretches: &[Part]) -> Vec<Part> {
    let each = stretches.len().div_ceil(PARTS).max(1);
    let sums = stretches
        .chunks(each)
        .map(|chunk| chunk.iter().copied().sum());
    sums.collect()
}

/// Returns the stretches between two samples in a loop during which no register says that the loop
/// was entered again: all that it counts with moved forward, and those that it never writes are
/// the same. True are those of which the number of entries says so, too.
fn loop_stretches(
    counter: &StepCounter,
    plan: &CountPlan,
    graph: &FlowGraph,
    loops: &Loops,
    counts: &ExecutionCounts,
) -> Vec<(Part, bool)> {
    let is_inside = |sample: &CountSample| {
        let block = sample.into.and_then(|into| block_at(graph, into));
        block.is_some_and(|block| loops.has_block(counter.around, block))
    };
    let value = |sample: &CountSample, register: Register| {
        let number = usize::from(register.number());
        sample.registers.get(number).copied().unwrap_or(0)
    };
    let rounds = |one: &StepCounter, before: &CountSample, after: &CountSample| {
        one.executions_between(value(before, one.register), value(after, one.register))
    };
    let beside: Vec<&StepCounter> = (plan.counters.iter())
        .filter(|one| one.around == counter.around && one.register != counter.register)
        .collect();
    let stretch = |before: &CountSample, after: &CountSample, samples: f64, slowed: f64| {
        let mut unwritten = counter.unwritten.iter();
        if unwritten.any(|one| value(before, one) != value(after, one))
            || (beside.iter()).any(|one| rounds(one, before, after).is_none())
        {
            return None;
        }
        let executions = rounds(counter, before, after)?;
        let raw = after.cpu_ns.checked_sub(before.cpu_ns)? as f64;
        let slowed_ns = samples * counts.sample_ns + raw * slowed;
        Some(Part {
            executions: executions as f64,
            ns: (raw - slowed_ns).max(0.0),
            hit_ns: slowed_ns,
            own_ns: raw / samples,
            raw_ns: raw,
        })
    };
    let is_calm = sampled_well(counts);
    let entry = plan
        .entry
        .filter(|_| loops.loops[counter.around].parent.is_none());
    let entries = |window: &CountWindow| Some(window.hits.get(entry?)?.as_ref()?.count);
    let mut stretches = Vec::new();
    for thread in &counts.threads {
        // The last sample in the loop with its window, the samples since then, and the end of the
        // last window.
        let mut last: Option<(&CountSample, usize, f64)> = None;
        let mut end = 0;
        let mut found: Vec<(Option<Part>, RangeInclusive<usize>)> = Vec::new();
        let windows = thread.iter().enumerate();
        for (number, window) in windows.filter(|(_, window)| is_calm(window)) {
            if window.begin_ns != end {
                last = None;
            }
            end = window.begin_ns + window.cpu_ns;
            let slowed = hit_time(window, counts) / window.cpu_ns as f64;
            for sample in &window.samples {
                if let Some((.., since)) = &mut last {
                    *since += 1.0;
                }
                if !is_inside(sample) {
                    continue;
                }
                if let Some((before, begun, since)) = last {
                    let own = stretch(before, sample, since, slowed);
                    found.push((own, begun..=number));
                }
                last = Some((sample, number, 0.0));
            }
        }
        // Each entry is in a stretch that a register gave away, or it is not known in which.
        let mut given_away = vec![0; thread.len()];
        let broken = found.iter().filter(|(part, _)| part.is_none());
        broken
            .flat_map(|(_, windows)| windows.clone())
            .for_each(|window| given_away[window] += 1);
        let is_settled =
            |window: usize| entries(&thread[window]).is_some_and(|all| all <= given_away[window]);
        stretches.extend(
            found
                .into_iter()
                .filter_map(|(part, mut windows)| Some((part?, windows.all(is_settled)))),
        );
    }
    stretches
}

/// Returns those stretches in which a counter advanced at its usual rate, and the share of the time
/// that others took. `None` if there is no usual rate: between samples at random distances, a loop
/// that was entered again has advanced by any amount.
fn on_a_line(stretches: &[Part]) -> Option<(Vec<Part>, f64)> {
    let rate = |one: &Part| one.executions / one.ns.max(1.0);
    let mut rates: Vec<f64> = stretches.iter().map(rate).collect();
    rates.sort_by(f64::total_cmp);
    let at = |share: f64| rates[((rates.len() - 1) as f64 * share) as usize];
    if rates.len() < LEAST_STRETCHES || at(0.75) > MOST_APART * at(0.25) {
        return None;
    }
    // Other programs slow some stretches; where the loop was entered again, less than half is left.
    let usual = at(0.5);
    let is_usual = |one: &&Part| (LEAST_KEPT..MOST_APART).contains(&(rate(one) / usual));
    let kept: Vec<Part> = stretches.iter().filter(is_usual).copied().collect();
    let time = |of: &[Part]| of.iter().map(|one| one.raw_ns).sum::<f64>();
    let left_out = 1.0 - time(&kept) / time(stretches).max(1.0);
    Some((kept, left_out))
}

/// Returns the block at a number of bytes from the procedure's start.
fn block_at(graph: &FlowGraph, into: u64) -> Option<usize> {
    let address = graph.start.0.wrapping_add(into);
    let after = graph
        .blocks
        .partition_point(|block| block.start.0 <= address);
    let block = after.checked_sub(1)?;
    (address < graph.blocks[block].end.0).then_some(block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stall::count_plan::CountPlace;
    use machine::{Architecture, Equivalence, NoImage, counted_loops, step_counters};
    use profile::{ImageAddress, PlaceHits, ProbedKind};

    const HIT_NS: f64 = 1300.0;

    /// 0: test rsi,rsi  3: je d  5: mov rdi,[rdi]  8: dec rsi  b: jne 5  d: ret
    const CHASE: [u8; 14] = [
        0x48, 0x85, 0xf6, 0x74, 0x08, 0x48, 0x8b, 0x3f, 0x48, 0xff, 0xce, 0x75, 0xf8, 0xc3,
    ];

    /// Returns what is seen of calls of `rounds` rounds, each of 5 ns, of which `own` of ten
    /// samples are in the loop.
    fn seen(rounds: u64, own: usize) -> (CountPlan, FlowGraph, Loops, ExecutionCounts) {
        let graph = FlowGraph::new(Architecture::X86_64, ImageAddress(0), &CHASE, &NoImage)
            .expect("a procedure");
        let loops = Loops::of(&graph);
        let counter = step_counters(Architecture::X86_64, &graph, &loops)[0];
        let plan = CountPlan {
            places: vec![CountPlace {
                block: 0,
                address: ImageAddress(3),
                entered: None,
                kind: ProbedKind::Jump,
            }],
            counters: vec![counter],
            entry: None,
        };
        let counts = ExecutionCounts {
            hit_ns: vec![HIT_NS],
            sample_ns: 20_000.0,
            threads: Vec::new(),
        };
        // Time in the loop, without the cost of samples and of hits.
        let (mut thread, mut ran, mut cpu, mut hits) = (Vec::new(), 0.0, 0.0, 0);
        for number in 0..400 {
            let period_ns = (1e6 * (0.6 + 0.8 * (f64::from(number) * 0.618).fract())).round();
            let mut window = CountWindow {
                begin_ns: cpu as u64,
                cpu_ns: 10 * period_ns as u64,
                period_ns,
                sampled_ns: 10.0 * period_ns,
                ..CountWindow::default()
            };
            let before = hits;
            for turn in 0..10 {
                cpu += period_ns;
                let calls = |ran: f64| (ran / 5.0 / rounds as f64) as u64;
                let free = period_ns - counts.sample_ns;
                let each = rounds as f64 * 5.0 * 10.0 / own as f64;
                let share = own as f64 / 10.0 * each / (each + HIT_NS);
                ran += free * share;
                hits = calls(ran);
                let done = (ran / 5.0) as u64 % rounds;
                let mut registers = [0; 16];
                registers[6] = rounds - done;
                window.samples.push(CountSample {
                    cpu_ns: cpu as u64,
                    into: ((7 * turn + number as usize) % 10 < own).then_some(8),
                    registers,
                });
            }
            window.hits = vec![Some(PlaceHits {
                count: hits - before,
                registers: Vec::new(),
            })];
            thread.push(window);
        }
        let counts = ExecutionCounts {
            threads: vec![thread],
            ..counts
        };
        (plan, graph, loops, counts)
    }

    fn rates(rounds: u64, own: usize) -> Vec<BlockRate> {
        let (plan, graph, loops, counts) = seen(rounds, own);
        block_rates(&plan, &graph, &loops, &counts)
    }

    #[test]
    fn a_register_counts_a_loop_that_is_hardly_left() {
        for own in [10, 6] {
            let found = rates(100_000_000, own);
            let [one] = found.as_slice() else {
                panic!("{found:?}");
            };
            assert!(one.within.is_some());
            // Two rounds in 10 ns, of the loop's own time.
            assert!((one.per_second / 2e8 - 1.0).abs() < 0.03, "{one:?}");
            assert!(one.deviation < 0.05, "{one:?}");
        }
    }

    /// Where other programs slow a loop again and again, only a count of its entries says that it
    /// was not entered anew.
    #[test]
    fn a_loop_that_was_not_entered_may_vary() {
        let (mut plan, graph, loops, mut counts) = seen(100_000_000, 10);
        let mut left = u64::MAX;
        let mut done = 0.0;
        for (number, window) in counts.threads[0].iter_mut().enumerate() {
            let speed = [1.0, 2.0, 4.0][number % 3];
            window.hits[0] = Some(PlaceHits::default());
            for sample in &mut window.samples {
                let rounds = (window.period_ns - counts.sample_ns) / 10.0 * speed;
                done += rounds.round();
                left -= rounds.round() as u64;
                sample.registers[6] = left;
            }
        }
        assert_eq!(block_rates(&plan, &graph, &loops, &counts), []);
        plan.entry = Some(0);
        let found = block_rates(&plan, &graph, &loops, &counts);
        let expected = done / own_seconds(&counts);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            (found[0].per_second / expected - 1.0).abs() < 0.02,
            "{found:?} {expected}"
        );
        assert!(found[0].deviation < 0.1, "{found:?}");
        // Where it is entered all the time, nothing is certain.
        for window in &mut counts.threads[0] {
            window.hits[0] = Some(PlaceHits {
                count: 1,
                registers: Vec::new(),
            });
        }
        assert!(
            block_rates(&plan, &graph, &loops, &counts)
                .iter()
                .all(|one| one.within.is_none())
        );
    }

    #[test]
    fn a_register_is_right_or_silent_whatever_the_length_of_its_loop() {
        let mut rounds = 4000.0; // 20 µs; samples are 0.6 to 1.4 ms apart
        let mut said = 0;
        while rounds < 4e7 {
            let found = rates(rounds as u64, 10);
            for one in found.iter().filter(|one| one.within.is_some()) {
                said += 1;
                let off = (one.per_second / 2e8).ln();
                assert!(off.abs() < 0.05, "{rounds}: {one:?}");
            }
            rounds *= 1.07;
        }
        assert!(said > 70, "{said}");
    }

    #[test]
    fn a_uprobe_counts_calls_and_its_cost_is_taken_off() {
        // Calls of 50 µs, of 10 µs and of 2 µs.
        for rounds in [10_000, 2000, 400] {
            let found = rates(rounds, 10);
            let one = found
                .iter()
                .find(|one| one.within.is_none())
                .expect("calls");
            let true_rate = 2e8 / rounds as f64;
            let off = (one.per_second / true_rate).ln();
            assert!(off.abs() < 0.03, "{rounds}: {one:?}");
        }
    }

    #[test]
    fn a_loop_is_counted_where_it_is_entered_however_its_rounds_vary() {
        // 0: nop  3: dec rsi  6: jne 3  8: ret
        let code = [0x0f, 0x1f, 0x00, 0x48, 0xff, 0xce, 0x75, 0xfb, 0xc3];
        let graph = FlowGraph::new(Architecture::X86_64, ImageAddress(0), &code, &NoImage)
            .expect("a procedure");
        let (loops, classes) = (Loops::of(&graph), Equivalence::of(&graph));
        let entered = counted_loops(Architecture::X86_64, &graph, &loops, &classes);
        let mean = |rounds: &[u64]| {
            let registers: Vec<[u64; 16]> = (rounds.iter().cycle().take(3000))
                .map(|rounds| {
                    let mut registers = [7; 16];
                    registers[6] = *rounds;
                    registers
                })
                .collect();
            mean_rounds(&entered[0], registers.iter())
        };
        let (rounds, deviation) = mean(&[1, 5, 100_000]).expect("rounds");
        assert!((rounds - 33_335.33).abs() < 0.01, "{rounds}");
        assert!((0.01..0.05).contains(&deviation), "{deviation}");
        assert_eq!(mean(&[3, u64::MAX]), None);
    }

    #[test]
    fn a_loop_with_equal_rounds_shows_their_number_at_samples() {
        // 0: mov esi,100  5: dec rsi  8: jne 5  a: ret, and where rsi is an argument
        let constant = [0xbe, 100, 0, 0, 0, 0x48, 0xff, 0xce, 0x75, 0xfb, 0xc3];
        let argument = [
            0x90, 0x90, 0x90, 0x90, 0x90, 0x48, 0xff, 0xce, 0x75, 0xfb, 0xc3,
        ];
        let rounds_in = |code: &[u8], rounds: &dyn Fn(usize) -> u64| {
            let (_, _, _, mut counts) = seen(1, 10);
            let graph = FlowGraph::new(Architecture::X86_64, ImageAddress(0), code, &NoImage)
                .expect("a procedure");
            let loops = Loops::of(&graph);
            let plan = CountPlan {
                counters: step_counters(Architecture::X86_64, &graph, &loops),
                ..CountPlan::default()
            };
            let mut chance = 1_u64;
            for (number, window) in counts.threads[0].iter_mut().enumerate() {
                for sample in &mut window.samples {
                    chance = chance
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    // A call is sampled as often as it is long.
                    let at = (chance >> 20) % 400;
                    let own = rounds(number);
                    sample.registers[6] = own.saturating_sub(at % own);
                    sample.into = (at < own).then_some(5);
                }
            }
            let classes = Equivalence::of(&graph);
            loop_rounds(&plan, &graph, &loops, &classes, &counts)
        };
        let rounds_of = |rounds: &dyn Fn(usize) -> u64| rounds_in(&constant, rounds);
        assert_eq!(rounds_in(&argument, &|_| 100), []);
        for rounds in [100, 400] {
            let found = rounds_of(&|_| rounds);
            let [one] = found.as_slice() else {
                panic!("{rounds}: {found:?}");
            };
            let off = (one.rounds / rounds as f64).ln().abs();
            assert!(off < 3.0 * one.deviation && one.deviation < 0.05, "{one:?}");
        }
        assert_eq!(rounds_of(&|number| [100, 400][number % 2]), []);
        assert_eq!(rounds_of(&|number| 200 + 10 * (number as u64 % 20)), []);
    }

    #[test]
    fn own_time_is_without_the_cost_of_hits_and_samples() {
        for (rounds, own) in [(100_000_000, 10), (100_000_000, 6), (10_000, 10)] {
            let (_, _, _, counts) = seen(rounds, own);
            let hits = counts.threads[0].iter().flat_map(|window| &window.hits);
            let hits: u64 = hits.flatten().map(|hits| hits.count).sum();
            let windows = counts.threads[0].iter();
            let free: f64 = windows
                .map(|one| 1e-9 * (one.cpu_ns as f64 - 10.0 * 20_000.0))
                .sum();
            let free = free - hits as f64 * 1e-9 * HIT_NS;
            let expected = free * own as f64 / 10.0;
            let found = own_seconds(&counts);
            assert!((found / expected - 1.0).abs() < 0.01, "{found}, {expected}");
        }
    }

    #[test]
    fn calls_that_are_too_frequent_give_no_rate() {
        assert_eq!(rates(20, 10), []);
    }
}
