//! Virtual speedups of places (Coz, section 2) that follow from the times of threads.
//!
//! If a program's threads take turns, all of their work is on the critical path: without a place,
//! the run is shorter by exactly the place's own time. If threads work at the same time, the saving
//! is bounded. It is at least the time in which no other thread works. It is at most the place's
//! own time, and the other code still takes its time on the available threads and CPUs. Where
//! several threads are idle together, the saving may only lengthen that. A speedup is reported if
//! the bounds are near each other; otherwise it takes experiments.

use super::sequences::Sequences;
use super::thread_work::{NodeWork, ThreadWork};
use profile::{AmountBase, Finding, FindingEvidence, PlaceInCode, TimeKind};

/// Widest interval with which a speedup is reported: a wider range says nothing.
const WIDEST: f64 = 0.25;
/// The same limit for bounds that follow from times, and for an interval that reaches to 0.
const WIDEST_BOUNDS: f64 = 0.12;
/// Part of the run by which runs differ without any change: a bound is known no better.
const MARGIN: f64 = 0.01;
/// Factor by which the work may exceed the duration: work is counted by samples, and the duration
/// is measured.
const MISCOUNTED: f64 = 1.05;
/// Part of the run above which a thread counts as always working: it waits for nobody, so that no
/// other thread hides its work.
const BUSY: f64 = 0.9;
/// Part of a place's time spent waiting for locks above which these are contended.
const CONTENDED: f64 = 0.05;
/// Part of the run in which nothing works above which that is no starting, ending or miscounting.
const LEAST_IDLE: f64 = 0.1;
/// Part of the run above which a thread is reported to work alone.
const ALONE_ENOUGH: f64 = 0.3;

/// The duration of a run and the work of its threads, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct UndisturbedRun<'a> {
    duration_ns: f64,
    threads: &'a [ThreadWork],
    cpus: f64,
}

impl<'a> UndisturbedRun<'a> {
    /// Subtracts waits for CPUs from the duration, in proportion to their part of the working time
    /// plus the waits. If the duration is unknown, assumes that threads take turns.
    pub(super) fn new(run_ns: f64, working_ns: f64, cpu_waits_ns: f64) -> Self {
        let duration = if run_ns > 0.0 { run_ns } else { working_ns };
        Self {
            duration_ns: (duration * working_ns / (working_ns + cpu_waits_ns)).max(1.0),
            threads: &[],
            cpus: f64::INFINITY,
        }
    }

    /// Sets the work of the threads, and the number of CPUs: 0 if unknown. The run is at least as
    /// long as its busiest thread worked.
    pub(super) fn on_threads(mut self, threads: &'a [ThreadWork], cpus: u32) -> Self {
        self.threads = threads;
        let longest = threads.iter().map(ThreadWork::time).fold(0.0, f64::max);
        self.duration_ns = self.duration_ns.max(longest);
        if cpus > 0 {
            self.cpus = f64::from(cpus);
        }
        self
    }

    /// Returns the virtual speedup of a sequence, if the times determine it.
    pub(super) fn speedup_of_sequence(
        self,
        sequences: &Sequences<'_>,
        number: usize,
        finding: &Finding,
    ) -> Option<FindingEvidence> {
        let own = sequences.sequences.get(number)?.time();
        let alone = self.time_alone(sequences, number).min(own);
        let is_other = |work: &NodeWork| sequences.owner_of(work.node) != Some(number);
        let left = self.time_needed(is_other);
        if self.time_needed(|_| true) > self.duration_ns * MISCOUNTED {
            // There was more work than the run had time for.
            return None;
        }
        if sequences.time_working() > self.duration_ns * MISCOUNTED && is_contended(finding) {
            // Without the contention, the holders' code would be faster, too.
            return None;
        }
        let most = own.min(self.duration_ns - left).max(alone);
        self.speedup_between(finding, alone - self.idle_time(sequences), most)
    }

    /// Returns the virtual speedup of a finding that is no sequence, if threads take turns.
    pub(super) fn speedup_of_part(
        self,
        finding: &Finding,
        sequences: &Sequences<'_>,
    ) -> Option<FindingEvidence> {
        let own = finding.amount.value * sequences.working_ns;
        let beside = (sequences.time_working() - self.duration_ns).max(0.0);
        self.speedup_between(finding, own - beside - self.idle_time(sequences), own)
    }

    /// Returns the least time in which no thread works, in nanoseconds. With several threads, what
    /// a place saves may only let them wait for longer: for timers, or answers of others.
    fn idle_time(self, sequences: &Sequences<'_>) -> f64 {
        let idle = (self.duration_ns - sequences.time_working()).max(0.0);
        if self.threads.len() > 1 && idle > LEAST_IDLE * self.duration_ns {
            idle
        } else {
            0.0
        }
    }

    /// Returns the evidence that a place saves a time between two bounds, in nanoseconds.
    fn speedup_between(self, finding: &Finding, least: f64, most: f64) -> Option<FindingEvidence> {
        let least = least.max(0.0);
        let value = finding.amount.value.max(f64::MIN_POSITIVE);
        let [low, high] = finding.amount.interval.unwrap_or([value; 2]);
        let part = |ns: f64, by: f64| (ns / self.duration_ns * by).clamp(0.0, 1.0);
        let interval = [
            (part(least, low / value) - MARGIN).max(0.0),
            (part(most, high / value) + MARGIN).min(1.0),
        ];
        let [low, high] = interval;
        let are_near = most - least <= (WIDEST_BOUNDS * self.duration_ns).min(most / 2.0);
        let is_narrow = are_near && high - low <= WIDEST;
        is_narrow.then(|| FindingEvidence::VirtualSpeedup {
            of: AmountBase::WorkingTime,
            free: part((least + most) / 2.0, 1.0),
            interval,
            measured_at: None,
        })
    }

    /// Returns the minimum duration of some work, on all threads and CPUs.
    fn time_needed(self, is_counted: impl Fn(&NodeWork) -> bool) -> f64 {
        let nodes = self.threads.iter().flat_map(|thread| &thread.nodes);
        let counted = nodes.filter(|work| is_counted(work));
        let (running, all) = counted.fold((0.0, 0.0), |(running, all), work| {
            (running + work.running_ns as f64, all + work.time())
        });
        let threads = self.threads.len().max(1) as f64;
        (running / self.cpus.min(threads)).max(all / threads)
    }

    /// Returns the time of a sequence that nothing else hides: the time in which certainly no other
    /// thread works, or the least time that any always-busy thread spends in it.
    fn time_alone(self, sequences: &Sequences<'_>, number: usize) -> f64 {
        let own = |thread: &ThreadWork| -> f64 {
            time_in_sequence(thread, sequences, number, NodeWork::time)
        };
        let in_place = sequences.sequences[number].time_working();
        let beside_others = (sequences.time_working() - self.duration_ns).max(0.0);
        let busy = self.threads.iter();
        let busy = busy.filter(|thread| thread.time() >= BUSY * self.duration_ns);
        let of_all_busy = busy.map(own).reduce(f64::min).unwrap_or_default();
        of_all_busy.max(in_place - beside_others)
    }

    /// Returns evidence that one thread runs code of a sequence for long while no other thread
    /// works, if several threads work. Its waits are not work that others could share.
    pub(super) fn works_alone(
        self,
        sequences: &Sequences<'_>,
        number: usize,
    ) -> Option<FindingEvidence> {
        if self.threads.len() < 2 || !(2.0..f64::INFINITY).contains(&self.cpus) {
            return None;
        }
        let all = sequences.time_working();
        // At worst, all work of others happens meanwhile.
        let alone = |thread: &ThreadWork| {
            let running = |work: &NodeWork| work.running_ns as f64;
            time_in_sequence(thread, sequences, number, running) - (all - thread.time())
        };
        let most = self.threads.iter().map(alone).fold(0.0, f64::max);
        let part = (most / self.duration_ns).min(1.0);
        (part >= ALONE_ENOUGH).then_some(FindingEvidence::WorksAlone { part })
    }
}

/// Returns whether threads wait for each other's locks in a place.
fn is_contended(finding: &Finding) -> bool {
    let waits = |evidence: &FindingEvidence| match evidence {
        FindingEvidence::TimeSpent { on, part } => *on == TimeKind::Locks && *part >= CONTENDED,
        _ => false,
    };
    finding.evidence.iter().any(waits)
}

/// Returns the time that a thread spends in a sequence, as `time` counts it, in nanoseconds.
fn time_in_sequence(
    thread: &ThreadWork,
    sequences: &Sequences<'_>,
    number: usize,
    time: impl Fn(&NodeWork) -> f64,
) -> f64 {
    let nodes = thread.nodes.iter();
    let own = nodes.filter(|work| sequences.owner_of(work.node) == Some(number));
    own.map(time).sum()
}

/// Returns the virtual speedup that experiments measured, if it is precise enough.
pub(super) fn measured_speedup(predicted: &Finding) -> Option<FindingEvidence> {
    let slope = predicted
        .evidence
        .iter()
        .find_map(|evidence| match evidence {
            FindingEvidence::Experiments { slope, .. } => Some(*slope),
            _ => None,
        });
    let [free, low, high] = slope?;
    let at = match &predicted.place.what {
        PlaceInCode::Line { line, .. } => line.clone(),
        place => place.name(),
    };
    let widest = if low > 0.0 { WIDEST } else { WIDEST_BOUNDS };
    (high - low <= widest).then(|| FindingEvidence::VirtualSpeedup {
        of: predicted.amount.relative_to.clone(),
        free,
        interval: [low, high],
        measured_at: Some(at),
    })
}

/// Returns whether a prediction concerns a place's waits, and not its running.
pub(super) fn is_of_waits(finding: &Finding) -> bool {
    let of_waits =
        |evidence: &FindingEvidence| matches!(evidence, FindingEvidence::SpedUpWaits { .. });
    finding.evidence.iter().any(of_waits)
}
