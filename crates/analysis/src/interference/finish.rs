//! The result: scores with intervals, floors, causes and doubts.

use super::analyser::Analyser;
use super::blocks::BlockState;
use super::causes::causes;
use super::cell::Cell;
use super::doubts::doubts;
use super::draft::Draft;
use super::floor::{ENOUGH_FOR_A_PART, Group, groups, judge};
use super::hand_over::ended_by;
use super::kinds::Kind;
use super::known::{BELIEVABLE, Cells, Known, Parts, Run, UNSEEN, over};
use super::sketch::Histogram;
use super::standing::{callers, judged, ranked, waits_in};
use super::turns::{mark_turns, turns_of};
use profile::{
    Between, BlockId, BlockScore, Coverage, CurvePoint, DurationSummary, ExecutionCounts, Floor,
    Interference, InterferenceScore, KindScore, LeftOutBlock, Level, ScoreBreakdown, SequenceScore,
    StackScore, Standing, ThreadIndex, ThreadScore, TraceHead, TracedBlock, TracedThread,
};
use rustc_hash::FxHashMap;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// So many kinds, threads and stacks of a block are named.
const KINDS_NAMED: usize = 8;
const THREADS_NAMED: usize = 64;
const STACKS_NAMED: usize = 8;
const SEQUENCES_NAMED: usize = 16;

impl Analyser {
    /// Says what the items mean. Threads and names are the head's.
    pub fn finish(mut self, head: &TraceHead) -> Interference {
        let mut cells: Cells = FxHashMap::default();
        for (thread, own) in self.settle() {
            for cell in own {
                cells.entry(cell.kind).or_default().push((thread, cell));
            }
        }
        let mut of_block: Vec<Vec<u32>> = vec![Vec::new(); self.blocks.len()];
        for (number, kind) in self.kinds.all.iter().enumerate() {
            if kind.recorded > 0
                && let Some(kinds) = of_block.get_mut(kind.block as usize)
            {
                kinds.push(number as u32);
            }
        }
        let ticks = |t: &TracedThread| t.end.saturating_sub(t.start) as f64;
        mark_turns(&mut self.kinds.all, &cells, &head.blocks, &self.blocks);
        let run = Run {
            head,
            ns: 1e9 / head.ticks_per_second.max(1) as f64,
            thread_time: head.threads.iter().map(ticks).sum::<f64>().max(1.0),
            enough: self.options.enough.max(1),
            busy: self.busy(head),
            throttled: self.throttled(head),
            taken: self.taken as f64,
            turns: turns_of(&self.kinds.all, head.blocks.len()),
            aarch64: self.options.aarch64,
        };
        let mut drafts = Vec::new();
        let mut left_out = Vec::new();
        for (number, block) in head.blocks.iter().enumerate() {
            let kinds = of_block.get(number).filter(|kinds| !kinds.is_empty());
            match (self.blocks.get_mut(number), kinds) {
                (Some(state), Some(kinds)) => {
                    state.instants.settle();
                    let all = &self.kinds.all;
                    drafts.push(score(
                        &run,
                        number as BlockId,
                        block,
                        state,
                        kinds,
                        all,
                        &cells,
                    ));
                }
                (state, _) => left_out.push(left(block, state.is_some_and(|s| s.excluded))),
            }
        }
        let findings = ranked(&run, drafts);
        let machine = self.machine_load(head);
        Interference {
            command: head.command.clone(),
            host: head.host.clone(),
            start_unix_ns: head.start_unix_ns,
            duration_ns: head.duration as f64 * run.ns,
            end: head.end,
            executions: self.tallies.executions,
            lost: head.lost.max(self.tallies.lost),
            threads: head.threads.len() as u64,
            thread_time_ns: run.thread_time * run.ns,
            empty_ns: head.empty_duration as f64 * run.ns,
            waits: head.waits,
            events: head.events.clone(),
            no_events: head.no_events.clone(),
            sequences: self.sequences(&run),
            warnings: self.warnings(head),
            machine,
            findings,
            left_out,
        }
    }

    fn warnings(&self, head: &TraceHead) -> Vec<String> {
        let mut warnings = head.warnings.clone();
        let tallies = &self.tallies;
        let executions = tallies.executions.max(1) as f64;
        let lost = head.lost.max(tallies.lost);
        if lost > 0 {
            let share = 100.0 * lost as f64 / (executions + lost as f64);
            let means = match head.blocks.iter().any(|block| block.calls > 0) {
                true => {
                    "what is said of functions is scaled up from the others to the calls that the threads counted"
                }
                false => "scores are too low by as much",
            };
            warnings.push(format!(
                "{lost} executions ({share:.1} %) were lost because buffers were full: {means}, and \
                 blocks that they were called from are compared less finely; use --overhead or --every, or trace fewer functions"
            ));
        }
        if tallies.backwards > 0 {
            let n = tallies.backwards;
            warnings.push(format!(
                "{n} items contradict the clock (the CPUs' time-stamp counters differ, or the trace is damaged): left out"
            ));
        }
        if tallies.unknown > 0 {
            let n = tallies.unknown;
            warnings.push(format!(
                "{n} items are of blocks that are not described: left out"
            ));
        }
        if tallies.retired > 0 {
            let n = tallies.retired;
            warnings.push(format!(
                "there were so many threads that {n} could not be told apart to the end: they are not listed, but count"
            ));
        }
        if self.pairs.ignored > 0 {
            let n = self.pairs.ignored;
            warnings.push(format!(
                "{n} pairs of calls were of more kinds than are followed"
            ));
        }
        if !head.waits {
            warnings.push(
                "waits were not measured: what is preemption, blocking or computing is not known, and causes go by names"
                    .to_owned(),
            );
        }
        warnings
    }

    fn sequences(&self, run: &Run<'_>) -> Vec<SequenceScore> {
        struct Sum {
            calls: u64,
            excess: f64,
            between: f64,
            ticks: f64,
            /// Of the kind with most time.
            floor: (u64, u64),
        }
        let mut by_blocks: FxHashMap<(u32, u32), Sum> = FxHashMap::default();
        for pair in self.pairs.all.iter().filter(|pair| pair.n >= run.enough) {
            let floor = pair.whole.smallest.at(4);
            let n = pair.n as f64;
            let between = pair.between.sum as f64 - n * pair.between.smallest.at(4) as f64;
            let sum = by_blocks.entry((pair.first, pair.second)).or_insert(Sum {
                calls: 0,
                excess: 0.0,
                between: 0.0,
                ticks: 0.0,
                floor: (0, 0),
            });
            sum.calls += pair.n;
            sum.excess += pair.whole.sum as f64 - n * floor as f64;
            sum.between += between;
            sum.ticks += pair.whole.sum as f64;
            sum.floor = sum.floor.max((pair.whole.sum, floor));
        }
        let name = |block: u32| {
            let block = run.head.blocks.get(block as usize);
            block.map_or_else(String::new, |block| block.name.clone())
        };
        let scores = by_blocks
            .into_iter()
            .map(|((first, second), sum)| SequenceScore {
                first: name(first),
                second: name(second),
                calls: sum.calls,
                program: sum.excess / run.thread_time,
                between: (sum.between / run.thread_time).max(0.0),
                mean_ns: sum.ticks / sum.calls as f64 * run.ns,
                floor_ns: sum.floor.1 as f64 * run.ns,
            });
        let mut scores: Vec<SequenceScore> = scores.collect();
        scores.sort_by(|a, b| {
            let names = |s: &SequenceScore| (s.first.clone(), s.second.clone());
            b.program
                .total_cmp(&a.program)
                .then_with(|| names(a).cmp(&names(b)))
        });
        scores.truncate(SEQUENCES_NAMED);
        scores
    }
}

fn left(block: &TracedBlock, excluded: bool) -> LeftOutBlock {
    let why = match &block.refused {
        Some(why) => why.clone(),
        None if excluded => "excluded".to_owned(),
        None if block.unfinished > 0 => format!(
            "never finished: {} calls were left by longjmp or ended with their thread, so that nothing is known of their duration",
            block.unfinished
        ),
        None => "never called".to_owned(),
    };
    LeftOutBlock {
        name: block.name.clone(),
        image: block.image.clone(),
        why,
    }
}

/// Everything about one block.
fn score(
    run: &Run<'_>,
    number: BlockId,
    block: &TracedBlock,
    state: &BlockState,
    numbers: &[u32],
    all: &[Kind],
    cells: &Cells,
) -> Draft {
    let kinds = numbers
        .iter()
        .filter_map(|number| all.get(*number as usize));
    let kinds: Vec<&Kind> = kinds.collect();
    let groups = groups(&kinds, run.enough);
    let mut histogram = Histogram::default();
    groups
        .iter()
        .for_each(|group| histogram.merge(&group.histogram));
    let mut threads = state.threads.clone();
    threads.sort_unstable();
    threads.dedup();
    let n: u64 = groups.iter().map(|group| group.total().n).sum();
    let whole = |group: &Group| (group.total().sum + group.total().asked) as f64;
    let ticks: f64 = groups.iter().map(whole).sum();
    let per_thread = PerThread::of(&groups, numbers, cells);
    let time = per_thread.time(run, &threads, n);
    let period = state.period.max(block.period);
    let exact = scale(block, period, run.head.lost);
    let coverage = coverage(&groups, ticks);
    let (n, ticks) = ((n as f64 * exact).round() as u64, ticks * exact);
    let excess = interval(&groups, &kinds);
    let mut excess = Between {
        estimate: excess.estimate * exact,
        low: excess.low * exact,
        high: excess.high * exact,
    };
    if period > 1 {
        // The longest count most and are rare: as few as were recorded may be three more by chance.
        let longest = histogram.steps().last().map_or(0, |(duration, _)| duration);
        excess.high += UNSEEN * f64::from(period) * longest as f64;
    }
    // No thread can spend more than all of its time in a block.
    let overstated = ticks / time.max(1.0);
    if overstated > BELIEVABLE {
        excess.low = 0.0;
        excess.estimate /= overstated;
    }
    let excess = at_most(excess, time);
    let floors: Vec<Floor> = groups
        .iter()
        .enumerate()
        .map(|(at, group)| judge(group, &per_thread.minima(at), run.enough, run.ns))
        .collect();
    let turn = groups.first().and_then(|group| group.turn);
    let parts = parts(state, &groups, n, excess.estimate, exact);
    let event_samples: Vec<u64> = run.head.events.iter().map(|event| event.samples).collect();
    let events = state.events.scores(&run.head.events, n, run.ns);
    let known = Known {
        number,
        block,
        state,
        groups: &groups,
        floor: floors.first(),
        excess: excess.estimate,
        time,
        exact,
        overstated,
        threads: threads.len(),
        largest_loser: per_thread.largest_loser(),
        parts,
        events: &events,
        event_samples: &event_samples,
        ns: run.ns,
        waits: run.head.waits,
        turn,
        turns: &run.turns,
        throttled: run.throttled,
        taken: run.taken,
        aarch64: run.aarch64,
    };
    let (mut causes, handed_over) = causes(&known, run.head);
    let doubts = doubts(&known, &causes);
    let ended_by = ended_by(&known);
    let judged = judged(&known, run, &causes, &doubts);
    if judged.standing == Standing::Interference {
        // What it is listed for comes first.
        causes.sort_by_key(|cause| !judged.reasons.contains(&cause.kind));
    }
    let block = BlockScore {
        name: block.name.clone(),
        image: block.image.clone(),
        kind: block.kind,
        score: InterferenceScore {
            sci: over(excess, time),
            program: Between::default(),
            standing: judged.standing,
            hindered: judged.hindered,
            same_as: None,
            own_floor: exact * per_thread.own_floor / time,
        },
        breakdown: ScoreBreakdown {
            scheduler: parts.scheduler / time,
            blocked: parts.blocked / time,
            running: parts.running / time,
            machine: judged.machine,
        },
        executions: ExecutionCounts {
            calls: n,
            recorded: groups.iter().map(|group| group.recorded).sum(),
            warm_up: state.warm_up,
            unwound: state.unwound,
            period,
        },
        durations: DurationSummary {
            total_ns: ticks * run.ns,
            mean_ns: ticks / n.max(1) as f64 * run.ns,
            mean_with_cpu_ns: (ticks - parts.scheduler) / n.max(1) as f64 * run.ns,
            median_ns: histogram.quantile(0.5) as f64 * run.ns,
            p99_ns: histogram.quantile(0.99) as f64 * run.ns,
            max_ns: histogram.steps().last().map_or(0, |(d, _)| d) as f64 * run.ns,
            curve: curve(&histogram, run.ns),
        },
        coverage,
        kinds: named_kinds(block, state, &groups, &floors, &kinds, time, run.ns),
        kinds_total: numbers.len() as u64,
        threads: per_thread.scores(run, exact),
        threads_total: threads.len() as u64,
        doubts,
        causes,
        events,
        stacks: stacks(state, run, ticks / n.max(1) as f64 * run.ns),
        floor: floors.into_iter().next().unwrap_or_default(),
    };
    Draft {
        number,
        handed_over,
        ended_by,
        block,
        excess,
        time,
        by_thread: per_thread.idle(exact),
        callers: callers(state, run),
        waits_in: waits_in(state, run),
    }
}

/// By how much sums over executions are to be multiplied where not all of them were recorded: the calls that the threads
/// counted, over those that the recorded ones stand for by their periods.
fn scale(block: &TracedBlock, period: u32, lost: u64) -> f64 {
    let some_missing = period > 1 || lost > 0;
    match some_missing && block.calls > 0 && block.represented > 0 {
        true => block.calls as f64 / block.represented as f64,
        false => 1.0,
    }
}

/// Nobody loses more than all of the time; an execution that stands for thousands may say so.
fn at_most(excess: Between, time: f64) -> Between {
    Between {
        estimate: excess.estimate.min(time),
        low: excess.low.min(time),
        high: excess.high.min(time),
    }
}

/// Returns what was lost, in ticks. The estimate has the floors of the groups. The lower end has the floor of each kind by
/// itself, as the parts of the run say it; the upper one the shortest execution. To both comes what another
/// such run would differ by: Student's interval of the sum over the parts of the run.
fn interval(groups: &[Group], kinds: &[&Kind]) -> Between {
    let mut windows: Vec<(u64, f64)> = Vec::new();
    let (mut estimate, mut low, mut high) = (0.0, 0.0, 0.0);
    for group in groups {
        let floor = group.floor();
        estimate += group.excess(floor);
        high += group.excess(group.smallest.at(1));
        windows.resize(group.windows.len(), (0, 0.0));
        for (to, window) in windows.iter_mut().zip(&group.windows) {
            to.0 += window.n;
            to.1 += group.lost_in(window, floor);
        }
    }
    // Of kinds that there was no room to tell apart, nothing is certain.
    let exact = |kind: &&&Kind| kind.recorded > 0 && kind.level == Level::Exact;
    for kind in kinds.iter().filter(exact) {
        let group = Group::one(kind);
        low += group.excess(group.high()).max(0.0);
    }
    let used = |w: &(u64, f64)| w.0 > 0;
    let first = windows.iter().position(used).unwrap_or(0);
    let last = windows
        .iter()
        .rposition(used)
        .map_or(first, |last| last + 1);
    let excesses: Vec<f64> = windows
        .get(first..last)
        .unwrap_or_default()
        .iter()
        .map(|w| w.1)
        .collect();
    let error = spread(&excesses);
    let estimate = f64::max(estimate, 0.0);
    Between {
        estimate,
        low: (low.min(estimate) - error).max(0.0),
        high: high.max(estimate) + error,
    }
}

/// Half of the 95 % interval of the sum of so many parts. Parts after each other are often alike, which makes it
/// narrower than it should be.
fn spread(parts: &[f64]) -> f64 {
    let n = parts.len() as f64;
    if parts.len() < 4 {
        return 0.0;
    }
    let mean = parts.iter().sum::<f64>() / n;
    let variance = parts.iter().map(|p| (p - mean) * (p - mean)).sum::<f64>() / (n - 1.0);
    let student = StudentsT::new(0.0, 1.0, n - 1.0);
    let reach = student.map_or(2.0, |student| student.inverse_cdf(0.975));
    reach * (n * variance).sqrt()
}

/// Time ready without a CPU is lost as such, and so is what others were waited for; of other waits, what is more than
/// the least of any execution.
fn parts(state: &BlockState, groups: &[Group], n: u64, excess: f64, exact: f64) -> Parts {
    let fates = &state.fates;
    // Who yields is ready, but has nothing to do.
    if state.yields {
        return Parts {
            scheduler: 0.0,
            blocked: 0.0,
            running: excess,
        };
    }
    let scheduler = (exact * fates.ready as f64).min(excess);
    let least = match state.least_compared {
        u64::MAX => 0.0,
        least => least as f64,
    };
    let compared = (exact * fates.compared as f64 - n as f64 * least).max(0.0);
    let idle: f64 = groups.iter().map(Group::asked).sum();
    let asked = (fates.asked as f64 - idle).max(0.0);
    let lost = exact * (fates.lost as f64 + asked) + compared;
    let blocked = lost.clamp(0.0, excess - scheduler);
    Parts {
        scheduler,
        blocked,
        running: excess - scheduler - blocked,
    }
}

fn coverage(groups: &[Group], ticks: f64) -> Coverage {
    let mut coverage = Coverage::default();
    for group in groups {
        let share = group.total().sum as f64 / ticks.max(1.0);
        match group.level {
            Level::Exact => coverage.exact += share,
            Level::Collapsed => coverage.collapsed += share,
            Level::Arguments => coverage.arguments += share,
            Level::Block => coverage.block += share,
        }
    }
    coverage
}

fn named_kinds(
    block: &TracedBlock,
    state: &BlockState,
    groups: &[Group],
    floors: &[Floor],
    kinds: &[&Kind],
    time: f64,
    ns: f64,
) -> Vec<KindScore> {
    let named = groups.iter().zip(floors).take(KINDS_NAMED);
    named
        .map(|(group, floor)| {
            let first = group.members.first().and_then(|at| kinds.get(*at));
            let values = first.filter(|_| group.level <= Level::Collapsed);
            let numbered = state.grouping().iter().filter_map(|at| {
                let value = values?.arguments.get(*at)?;
                Some((*block.arguments.get(*at)?, *value))
            });
            let total = group.total();
            KindScore {
                level: group.level,
                arguments: numbered.collect(),
                inside: first
                    .filter(|_| group.level == Level::Exact)
                    .map(|kind| kind.inside),
                calls: total.n,
                sci: group.excess(group.floor()) / time,
                mean_ns: (total.sum + total.asked) as f64 / total.n.max(1) as f64 * ns,
                floor: floor.clone(),
            }
        })
        .collect()
}

fn curve(histogram: &Histogram, ns: f64) -> Vec<CurvePoint> {
    let steps = histogram.steps();
    steps
        .map(|(ticks, calls)| CurvePoint {
            up_to_ns: ticks as f64 * ns,
            calls,
        })
        .collect()
}

fn stacks(state: &BlockState, run: &Run<'_>, mean_ns: f64) -> Vec<StackScore> {
    let frame = |place: &u32| {
        let Some(place) = run.head.places.get(*place as usize) else {
            return "?".to_owned();
        };
        match (&place.line, place.function.as_str()) {
            (_, "") => format!("{}+{:#x}", place.image, place.offset.0),
            (Some((file, line)), function) => format!("{function} {file}:{line}"),
            (None, function) => function.to_owned(),
        }
    };
    let mut stacks: Vec<StackScore> = state
        .stacks
        .all
        .iter()
        .map(|stack| StackScore {
            frames: stack.places.iter().map(frame).collect(),
            count: stack.count,
            mean_ns: match stack.measured {
                0 => mean_ns,
                n => stack.sum as f64 / n as f64 * run.ns,
            },
        })
        .collect();
    let time = |stack: &StackScore| stack.count as f64 * stack.mean_ns;
    stacks.sort_by(|a, b| {
        time(b)
            .total_cmp(&time(a))
            .then_with(|| a.frames.cmp(&b.frames))
    });
    stacks.truncate(STACKS_NAMED);
    stacks
}

/// A block's executions by thread.
struct PerThread {
    /// In ticks: what each lost, its executions, its shortest, what it was asked to wait.
    threads: Vec<(ThreadIndex, f64, u64, u64, f64)>,
    /// The shortest executions by group and thread, of threads with enough.
    minima: Vec<Vec<u64>>,
    /// What would be lost if each thread had its own floor.
    own_floor: f64,
}

impl PerThread {
    fn of(groups: &[Group], numbers: &[u32], cells: &Cells) -> Self {
        let mut threads: FxHashMap<ThreadIndex, (f64, u64, u64, f64)> = FxHashMap::default();
        let mut minima = Vec::new();
        let mut own_floor = 0.0;
        for group in groups {
            let floor = group.floor();
            let mut of_group: FxHashMap<ThreadIndex, Cell> = FxHashMap::default();
            let members = group.members.iter().filter_map(|at| numbers.get(*at));
            for (thread, cell) in members.filter_map(|kind| cells.get(kind)).flatten() {
                of_group
                    .entry(*thread)
                    .and_modify(|sum| sum.merge(cell))
                    .or_insert(*cell);
            }
            let mut of_group: Vec<(ThreadIndex, Cell)> = of_group.into_iter().collect();
            of_group.sort_unstable_by_key(|(thread, _)| *thread);
            let mut least = Vec::new();
            for (thread, cell) in of_group {
                let lost = |floor: u64| group.lost_in(&cell.sums, floor);
                let own = cell.recorded >= ENOUGH_FOR_A_PART;
                own_floor += lost(if own { cell.sums.min } else { floor }).max(0.0);
                if own {
                    least.push(cell.sums.min);
                }
                let asked = match group.turn {
                    Some(_) => 0.0,
                    None => cell.sums.asked as f64,
                };
                let sum = threads.entry(thread).or_insert((0.0, 0, u64::MAX, 0.0));
                *sum = (
                    sum.0 + lost(floor),
                    sum.1 + cell.sums.n,
                    sum.2.min(cell.sums.min),
                    sum.3 + asked,
                );
            }
            minima.push(least);
        }
        let threads = threads
            .into_iter()
            .map(|(t, (lost, n, min, asked))| (t, lost, n, min, asked));
        Self {
            threads: threads.collect(),
            minima,
            own_floor,
        }
    }

    /// The duration of those that executed it, but for those that hardly did: one that waits for all the others to end would make any
    /// score smaller.
    fn time(&self, run: &Run<'_>, all: &[ThreadIndex], n: u64) -> f64 {
        let lost: f64 = self.threads.iter().map(|thread| thread.1).sum();
        let known = self.threads.len() as f64;
        let hardly = |index: &ThreadIndex| {
            let own = self.threads.iter().find(|thread| thread.0 == *index);
            own.is_some_and(|own| {
                (own.2 * 10) as f64 * known < n as f64 && own.1 * 10.0 * known < lost
            })
        };
        let threads = all.iter().filter(|thread| !hardly(thread));
        let time: f64 = threads.map(|thread| run.thread_ticks(*thread)).sum();
        time.max(1.0)
    }

    /// Returns the part of the loss that the thread has that lost most.
    fn largest_loser(&self) -> f64 {
        let lost = self.threads.iter().map(|thread| thread.1.max(0.0));
        let (sum, most) = lost.fold((0.0, 0.0), |(sum, most), lost| {
            (sum + lost, f64::max(most, lost))
        });
        most / f64::max(sum, 1.0)
    }

    /// Returns what each thread lost and what it was asked to wait, in ticks.
    fn idle(&self, exact: f64) -> Vec<(ThreadIndex, f64, f64)> {
        let threads = self.threads.iter();
        threads
            .map(|thread| (thread.0, exact * thread.1, exact * thread.4))
            .collect()
    }

    fn minima(&self, group: usize) -> Vec<u64> {
        self.minima.get(group).cloned().unwrap_or_default()
    }

    fn scores(&self, run: &Run<'_>, exact: f64) -> Vec<ThreadScore> {
        let scores = self.threads.iter().filter_map(|(index, lost, n, min, _)| {
            let thread = run.head.threads.get(*index as usize)?;
            let ticks = run.thread_ticks(*index);
            Some(ThreadScore {
                tid: thread.tid,
                pid: thread.pid,
                name: thread.name.clone(),
                sci: (exact * lost / ticks.max(1.0)).max(0.0),
                calls: (exact * *n as f64).round() as u64,
                min_ns: *min as f64 * run.ns,
                duration_ns: ticks * run.ns,
            })
        });
        let mut scores: Vec<ThreadScore> = scores.collect();
        let lost = |score: &ThreadScore| score.sci * score.duration_ns;
        scores.sort_by(|a, b| lost(b).total_cmp(&lost(a)).then(a.tid.cmp(&b.tid)));
        scores.truncate(THREADS_NAMED);
        scores
    }
}
