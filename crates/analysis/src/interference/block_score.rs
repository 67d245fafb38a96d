//! Score of one block: the sums of its executions, the loss, and the causes of the loss.

use super::blocks::BlockState;
use super::causes::find_causes;
use super::doubts::doubts;
use super::draft::Draft;
use super::floor::{Group, groups, judge};
use super::hand_over::ended_by;
use super::kinds::Kind;
use super::known::{AnalysedRun, BELIEVABLE, Cells, Known, Parts, UNSEEN, over};
use super::loss::{cap_loss, loss_interval, recording_scale, split_loss};
use super::per_thread::PerThread;
use super::sketch::Histogram;
use super::standing::{callers, judge_standing, waits_in};
use profile::{
    Between, BlockId, BlockScore, Coverage, CurvePoint, DurationSummary, EventScore,
    ExecutionCounts, Floor, InterferenceScore, KindScore, Level, ScoreBreakdown, StackScore,
    Standing, ThreadIndex, TracedBlock,
};

/// Maximum number of kinds, and of stacks, that are named for a block.
const KINDS_NAMED: usize = 8;
const STACKS_NAMED: usize = 8;

/// A block, and what was recorded of its executions.
pub(super) struct TracedExecutions<'a> {
    pub number: BlockId,
    pub block: &'a TracedBlock,
    pub state: &'a BlockState,
    /// The kinds of its executions, by their numbers.
    pub kinds: &'a [u32],
}

/// Sums over the executions of a block; times in ticks.
struct BlockSums<'a> {
    kinds: Vec<&'a Kind>,
    /// The one with most time first.
    groups: Vec<Group>,
    histogram: Histogram,
    threads: Vec<ThreadIndex>,
    per_thread: PerThread,
    /// Executions, those included that were not recorded.
    calls: u64,
    /// The time of these.
    ticks: f64,
    /// Duration of the threads that executed the block.
    time: f64,
    /// Recording period: the number of executions of which one was recorded.
    period: u32,
    /// See [`Known::exact`].
    exact: f64,
    /// The loss.
    excess: Between,
    /// See [`Known::overstated`].
    overstated: f64,
    coverage: Coverage,
}

impl<'a> BlockSums<'a> {
    fn add_up(
        run: &AnalysedRun<'_>,
        traced: &TracedExecutions<'_>,
        all: &'a [Kind],
        cells: &Cells,
    ) -> Self {
        let numbers = traced.kinds.iter();
        let kinds: Vec<&Kind> = numbers.filter_map(|at| all.get(*at as usize)).collect();
        let groups = groups(&kinds, run.enough);
        let mut histogram = Histogram::default();
        for group in &groups {
            histogram.merge(&group.histogram);
        }
        let mut threads = traced.state.threads.clone();
        threads.sort_unstable();
        threads.dedup();
        let recorded: u64 = groups.iter().map(|group| group.total().n).sum();
        let whole = |group: &Group| (group.total().sum + group.total().asked) as f64;
        let ticks: f64 = groups.iter().map(whole).sum();
        let per_thread = PerThread::add_up(&groups, traced.kinds, cells);
        let period = traced.state.period.max(traced.block.period);
        let exact = recording_scale(traced.block, period, run.head.lost);
        let mut sums = Self {
            coverage: level_coverage(&groups, ticks),
            time: per_thread.total_time(run, &threads, recorded),
            calls: (recorded as f64 * exact).round() as u64,
            ticks: ticks * exact,
            excess: Between::default(),
            overstated: 0.0,
            kinds,
            groups,
            histogram,
            threads,
            per_thread,
            period,
            exact,
        };
        sums.overstated = sums.ticks / sums.time.max(1.0);
        sums.excess = sums.total_loss();
        sums
    }

    fn total_loss(&self) -> Between {
        let recorded = loss_interval(&self.groups, &self.kinds);
        let mut excess = Between {
            estimate: recorded.estimate * self.exact,
            low: recorded.low * self.exact,
            high: recorded.high * self.exact,
        };
        if self.period > 1 {
            // The longest count most and are rare: as few as were recorded may be three more by chance.
            excess.high += UNSEEN * f64::from(self.period) * self.longest() as f64;
        }
        // No thread can spend more than all of its time in a block.
        if self.overstated > BELIEVABLE {
            excess.low = 0.0;
            excess.estimate /= self.overstated;
        }
        cap_loss(excess, self.time)
    }

    fn longest(&self) -> u64 {
        let last = self.histogram.steps().last();
        last.map_or(0, |(duration, _)| duration)
    }

    fn mean(&self) -> f64 {
        self.ticks / self.calls.max(1) as f64
    }

    fn floors(&self, run: &AnalysedRun<'_>) -> Vec<Floor> {
        let groups = self.groups.iter().enumerate();
        groups
            .map(|(at, group)| {
                let shortest = self.per_thread.shortest_of(at);
                judge(group, &shortest, run.enough, run.ns)
            })
            .collect()
    }

    /// Returns the facts that the search for causes and doubts needs.
    fn known<'k>(
        &'k self,
        run: &'k AnalysedRun<'_>,
        traced: &TracedExecutions<'k>,
        floor: Option<&'k Floor>,
        (events, event_samples): (&'k [EventScore], &'k [u64]),
    ) -> Known<'k> {
        let TracedExecutions { block, state, .. } = *traced;
        let excess = self.excess.estimate;
        Known {
            number: traced.number,
            block,
            state,
            groups: &self.groups,
            floor,
            excess,
            time: self.time,
            exact: self.exact,
            overstated: self.overstated,
            threads: self.threads.len(),
            largest_loser: self.per_thread.largest_loser(),
            parts: split_loss(state, &self.groups, self.calls, excess, self.exact),
            events,
            event_samples,
            ns: run.ns,
            waits: run.head.waits,
            turn: self.groups.first().and_then(|group| group.turn),
            turns: &run.turns,
            throttled: run.throttled,
            taken: run.taken,
            aarch64: run.aarch64,
        }
    }

    fn executions(&self, state: &BlockState) -> ExecutionCounts {
        ExecutionCounts {
            calls: self.calls,
            recorded: self.groups.iter().map(|group| group.recorded).sum(),
            warm_up: state.warm_up,
            unwound: state.unwound,
            period: self.period,
        }
    }

    fn durations(&self, parts: Parts, ns: f64) -> DurationSummary {
        let with_cpu = (self.ticks - parts.scheduler) / self.calls.max(1) as f64;
        DurationSummary {
            total_ns: self.ticks * ns,
            mean_ns: self.mean() * ns,
            mean_with_cpu_ns: with_cpu * ns,
            median_ns: self.histogram.quantile(0.5) as f64 * ns,
            p99_ns: self.histogram.quantile(0.99) as f64 * ns,
            max_ns: self.longest() as f64 * ns,
            curve: duration_curve(&self.histogram, ns),
        }
    }
}

/// Scores one block.
pub(super) fn score_block(
    run: &AnalysedRun<'_>,
    traced: &TracedExecutions<'_>,
    all: &[Kind],
    cells: &Cells,
) -> Draft {
    let TracedExecutions { block, state, .. } = *traced;
    let sums = BlockSums::add_up(run, traced, all, cells);
    let floors = sums.floors(run);
    let event_samples: Vec<u64> = run.head.events.iter().map(|event| event.samples).collect();
    let events = state.events.scores(&run.head.events, sums.calls, run.ns);
    let known = sums.known(run, traced, floors.first(), (&events, &event_samples));
    let (parts, time) = (known.parts, sums.time);
    let (mut causes, handed_over) = find_causes(&known, run.head);
    let doubts = doubts(&known, &causes);
    let ended_by = ended_by(&known);
    let judged = judge_standing(&known, run, &causes, &doubts);
    if judged.standing == Standing::Interference {
        // What it is listed for comes first.
        causes.sort_by_key(|cause| !judged.reasons.contains(&cause.kind));
    }
    let score = InterferenceScore {
        sci: over(sums.excess, time),
        program: Between::default(),
        standing: judged.standing,
        hindered: judged.hindered,
        same_as: None,
        own_floor: sums.exact * sums.per_thread.own_floor / time,
    };
    let breakdown = ScoreBreakdown {
        scheduler: parts.scheduler / time,
        blocked: parts.blocked / time,
        running: parts.running / time,
        machine: judged.machine,
    };
    let block = BlockScore {
        name: block.name.clone(),
        image: block.image.clone(),
        kind: block.kind,
        score,
        solo: None,
        breakdown,
        executions: sums.executions(state),
        durations: sums.durations(parts, run.ns),
        coverage: sums.coverage,
        kinds: named_kinds(traced, &sums, &floors, run.ns),
        kinds_total: traced.kinds.len() as u64,
        threads: sums.per_thread.scores(run, sums.exact),
        threads_total: sums.threads.len() as u64,
        doubts,
        causes,
        events,
        stacks: named_stacks(state, run, sums.mean() * run.ns),
        floor: floors.into_iter().next().unwrap_or_default(),
    };
    Draft {
        number: traced.number,
        handed_over,
        ended_by,
        block,
        excess: sums.excess,
        time,
        by_thread: sums.per_thread.losses(sums.exact),
        callers: callers(state, run),
        waits_in: waits_in(state, run),
    }
}

fn level_coverage(groups: &[Group], ticks: f64) -> Coverage {
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
    traced: &TracedExecutions<'_>,
    sums: &BlockSums<'_>,
    floors: &[Floor],
    ns: f64,
) -> Vec<KindScore> {
    let named = sums.groups.iter().zip(floors).take(KINDS_NAMED);
    named
        .map(|(group, floor)| {
            let first = group.members.first().and_then(|at| sums.kinds.get(*at));
            let values = first.filter(|_| group.level <= Level::Collapsed);
            let numbered = traced.state.grouping().iter().filter_map(|at| {
                let value = values?.arguments.get(*at)?;
                Some((*traced.block.arguments.get(*at)?, *value))
            });
            let total = group.total();
            KindScore {
                level: group.level,
                arguments: numbered.collect(),
                inside: first
                    .filter(|_| group.level == Level::Exact)
                    .map(|kind| kind.inside),
                calls: total.n,
                sci: group.excess(group.floor()) / sums.time,
                mean_ns: (total.sum + total.asked) as f64 / total.n.max(1) as f64 * ns,
                floor: floor.clone(),
            }
        })
        .collect()
}

fn duration_curve(histogram: &Histogram, ns: f64) -> Vec<CurvePoint> {
    let steps = histogram.steps();
    steps
        .map(|(ticks, calls)| CurvePoint {
            up_to_ns: ticks as f64 * ns,
            calls,
        })
        .collect()
}

fn named_stacks(state: &BlockState, run: &AnalysedRun<'_>, mean_ns: f64) -> Vec<StackScore> {
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
