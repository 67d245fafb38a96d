//! The bounds of what the run gains by a change at a place (ours).
//!
//! **The upper end.** A program's run is as long as its longest chain of work and waits. What is removed from a place shortens a chain by the
//! place's time at most, whatever thread it lies in: that time, as a part of the run's duration and not of what all threads took. And what
//! is left has to be done by the threads and CPUs that there are: with two threads that each have the place for half of their time, the run gets
//! shorter by half, not by all. The change may also be made at the function that asks for the place, and spare what that does
//! besides: its time, with all that it calls, is what is removed then. What a garbage collector does may all exist because of the place. Who starts processes may
//! do so no more: then at least the longest of the other threads' work is left.
//!
//! **The lower end.** How much of its time a change removes nobody knows; it is assumed to be [`SPARED`] at least. That makes the run shorter as far as
//! nobody else works meanwhile, or where all that work all the time have the place. Where experiments spoke, it is that part of the lower end of their
//! prediction, and below 0 where they say so. Where others wait for the place, or one thread works in it while no other one works, a change may hand a part of its work
//! to them instead of sparing it: on `n` CPUs that gains `1 - 1/n` of it at most.

use super::asker::{find_asker, find_starter};
use super::sequences::Sequences;
use super::thread_work::{NodeWork, ThreadWork};
use super::timed_tree::MethodName;
use profile::{AmountBase, Finding, FindingEvidence, NodeId, plain_name};
use std::ops::Range;

/// Room for what chance and other programs add to the duration of a run.
const MARGIN: f64 = 0.02;
/// Room above: what measures makes work that it interrupts longer, and so a place's part of the run smaller, than they are without it.
const MARGIN_ABOVE: f64 = 0.05;
/// The part of a place's time that a change there spares at least, as it is assumed: of 37 programs with one thread that
/// `benches/run_cases.py` had measured when this was chosen, the repair of 35 gained half of the first finding's part or more.
const SPARED: f64 = 0.5;
/// Error of a prediction: 4.3 points in the mean for the held-out programs of `benches/causal_sets.py`.
const PREDICTED_WITHIN: f64 = 0.05;
/// Part of the run from which on a thread counts as always working: it waits for nobody, so no other thread hides its
/// work.
const BUSY: f64 = 0.9;

/// The part of the run from which on it is said that a thread works alone.
/// Tuned by `benches/run_cases.py`.
const ALONE_ENOUGH: f64 = 0.3;

/// The duration of a run and what threads did in it, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct UndisturbedRun<'a> {
    duration_ns: f64,
    threads: &'a [ThreadWork],
    cpus: f64,
}

/// The code removed at a place: the nodes of a sequence, those of a function, and the work of garbage collectors.
struct RemovedPlace<'a, 'b> {
    sequences: &'a Sequences<'b>,
    number: usize,
    function: Vec<Range<usize>>,
    collectors: Vec<Range<usize>>,
}

/// Returns whether a node is in one of some ranges, which are in order, and have nothing in common.
fn is_in_ranges(ranges: &[Range<usize>], node: NodeId) -> bool {
    let at = node.0 as usize;
    let behind = ranges.partition_point(|nodes| nodes.start <= at);
    let nodes = behind.checked_sub(1).and_then(|i| ranges.get(i));
    nodes.is_some_and(|nodes| at < nodes.end)
}

impl RemovedPlace<'_, '_> {
    fn has_node(&self, node: NodeId) -> bool {
        self.is_of_sequence(node)
            || is_in_ranges(&self.function, node)
            || is_in_ranges(&self.collectors, node)
    }

    fn is_of_sequence(&self, node: NodeId) -> bool {
        self.sequences.owner_of(node) == Some(self.number)
    }
}

impl<'a> UndisturbedRun<'a> {
    /// Takes waits for CPUs off the duration, as much as they are of the working time together with them. Without a known duration, that of a program whose
    /// threads take turns.
    pub(super) fn new(run_ns: f64, working_ns: f64, cpu_waits_ns: f64) -> Self {
        let duration = if run_ns > 0.0 { run_ns } else { working_ns };
        Self {
            duration_ns: (duration * working_ns / (working_ns + cpu_waits_ns)).max(1.0),
            threads: &[],
            cpus: f64::INFINITY,
        }
    }

    /// Sets the work of the threads, and the number of CPUs: 0 if unknown. The run is as long as its busiest thread
    /// worked, whoever waited for CPUs.
    pub(super) fn on_threads(mut self, threads: &'a [ThreadWork], cpus: u32) -> Self {
        self.threads = threads;
        let longest = threads.iter().map(ThreadWork::time).fold(0.0, f64::max);
        self.duration_ns = self.duration_ns.max(longest);
        if cpus > 0 {
            self.cpus = f64::from(cpus);
        }
        self
    }

    /// Returns the gain of a change at a sequence. `further_ns` is the time of what only exists because of it, in nanoseconds.
    pub(super) fn gain_of_sequence(
        self,
        sequences: &Sequences<'_>,
        number: usize,
        finding: &Finding,
        further_ns: f64,
    ) -> Option<FindingEvidence> {
        let sequence = sequences.sequences.get(number)?;
        let own = sequence.time();
        let asker = match sequence.is_process_start() {
            true => find_starter(sequences),
            false => find_asker(sequences, number),
        };
        let asker = asker.map(|(asker, _)| asker);
        let function = asker.or_else(|| sequences.tree.asking_function(&sequence.path).cloned());
        let nodes = function.as_ref().map_or(Vec::new(), |function| {
            sequences.tree.nodes_of_function(function)
        });
        let below = nodes.iter().map(|nodes| sequences.time_of(nodes)).sum();
        let removed = own.max(below).max(further_ns);
        let chance = chance_of(finding);
        // Threads of a run that was disturbed may have more left to do than it took: then nothing is gained.
        let part = |ns: f64| (ns / self.duration_ns * chance + MARGIN_ABOVE).clamp(0.0, 1.0);
        let place = RemovedPlace {
            sequences,
            number,
            function: nodes,
            collectors: sequences.tree.nodes_of_collectors(),
        };
        // What other processes do exists only because of the place: it is not there to be done.
        let most = match further_ns > 0.0 && further_ns >= own.max(below) {
            true => part(removed.max(self.duration_ns - self.longest_beside(&place))),
            false => part(removed).min(part(self.duration_ns - self.time_left(&place))),
        };
        let handed_on = match is_waited_for(finding) || works_alone(finding) {
            true => self.handed_on(),
            false => 1.0,
        };
        let (low, most, spared) = match predicted_bounds(finding) {
            Some((low, high, line)) => {
                // Of waits, the part is one of all waits: these are the sequence's.
                let sped_up = match is_of_waits(finding) {
                    true => own - sequence.time_running(),
                    false => line * sequences.working_ns,
                };
                let beside = (removed - sped_up).max(0.0);
                let predicted = high.max(0.0) + beside / self.duration_ns + PREDICTED_WITHIN;
                let most = predicted.min(1.0).min(most.max(high));
                let spared = (SPARED * handed_on * low - MARGIN).max(0.0);
                (low.min(spared), most, spared)
            }
            None => {
                let alone = self.time_alone(&place);
                let spared = SPARED * handed_on * alone / self.duration_ns / chance;
                let low = (spared - MARGIN).clamp(0.0, most);
                (low, most, low)
            }
        };
        let is_place = |function: &MethodName| sequence.path.last() == Some(function);
        let function = function.filter(|of| !is_place(of) && below > own * (1.0 + MARGIN));
        Some(FindingEvidence::RunGain {
            interval: [low, most.max(low)],
            with: function.map(|(name, _)| plain_name(&name).to_owned()),
            spared: (spared > 0.0).then_some(SPARED * handed_on),
        })
    }

    /// Returns the part of a place's work that leaves its thread if a change shares the work among all threads that
    /// could do it.
    fn handed_on(self) -> f64 {
        let workers = self.cpus.min(self.threads.len() as f64).max(1.0);
        1.0 - 1.0 / workers.max(2.0)
    }

    /// Returns the time of the thread that does most beside a place.
    fn longest_beside(self, place: &RemovedPlace<'_, '_>) -> f64 {
        let beside = |thread: &ThreadWork| {
            let nodes = thread.nodes.iter();
            let beside = nodes.filter(|work| !place.has_node(work.node));
            beside.map(NodeWork::time).sum()
        };
        self.threads.iter().map(beside).fold(0.0, f64::max)
    }

    /// Returns the minimum time of the work that is left without a place, on all threads and CPUs that there are.
    fn time_left(self, place: &RemovedPlace<'_, '_>) -> f64 {
        let nodes = self.threads.iter().flat_map(|thread| &thread.nodes);
        let left = nodes.filter(|work| !place.has_node(work.node));
        let (running, all) = left.fold((0.0, 0.0), |(running, all), work| {
            (running + work.running_ns as f64, all + work.time())
        });
        let threads = self.threads.len().max(1) as f64;
        (running / self.cpus.min(threads)).max(all / threads)
    }

    /// Returns the time of a sequence that nothing else hides. That is the time in which certainly nobody else works,
    /// or the least time that any always-busy thread spends in it. Processes that are short have many threads that did
    /// little: their work counts like the others'.
    fn time_alone(self, place: &RemovedPlace<'_, '_>) -> f64 {
        if self.threads.is_empty() {
            return 0.0;
        }
        let own = |thread: &ThreadWork| -> f64 {
            let nodes = thread.nodes.iter();
            let own = nodes.filter(|work| place.is_of_sequence(work.node));
            own.map(NodeWork::time).sum()
        };
        let sequence = &place.sequences.sequences[place.number];
        let in_place = sequence.time_working();
        let beside_others = (place.sequences.time_working() - self.duration_ns).max(0.0);
        let busy = self.threads.iter();
        let busy = busy.filter(|thread| thread.time() >= BUSY * self.duration_ns);
        let of_all_busy = busy.map(own).reduce(f64::min).unwrap_or_default();
        of_all_busy.max(in_place - beside_others)
    }

    /// Returns evidence that no other thread works while one thread runs code of a sequence, if several threads work, and it is so for long.
    pub(super) fn works_alone(
        self,
        sequences: &Sequences<'_>,
        number: usize,
    ) -> Option<FindingEvidence> {
        if self.threads.len() < 2 || !(2.0..f64::INFINITY).contains(&self.cpus) {
            return None;
        }
        let all = sequences.time_working();
        let alone = |thread: &ThreadWork| {
            let nodes = thread.nodes.iter();
            let own = nodes.filter(|work| sequences.owner_of(work.node) == Some(number));
            let own: f64 = own.map(NodeWork::time).sum();
            // At worst, all that others do is done meanwhile.
            own - (all - thread.time())
        };
        let most = self.threads.iter().map(alone).fold(0.0, f64::max);
        let part = (most / self.duration_ns).min(1.0);
        (part >= ALONE_ENOUGH).then_some(FindingEvidence::WorksAlone { part })
    }

    /// Returns the gain of a change that spares a part of all threads' time.
    pub(super) fn gain_of_part(self, finding: &Finding, whole_ns: f64) -> FindingEvidence {
        let high = finding
            .amount
            .interval
            .map_or(finding.amount.value, |i| i[1]);
        FindingEvidence::RunGain {
            interval: [
                0.0,
                (high * whole_ns / self.duration_ns + MARGIN_ABOVE).clamp(0.0, 1.0),
            ],
            with: None,
            spared: None,
        }
    }
}

/// Returns by how much a place may have more than its part, by chance.
fn chance_of(finding: &Finding) -> f64 {
    let is_part = finding.amount.relative_to == AmountBase::WorkingTime;
    let interval = finding.amount.interval.filter(|_| is_part);
    interval.map_or(1.0, |[_, high]| {
        (high / finding.amount.value.max(f64::MIN_POSITIVE)).max(1.0)
    })
}

/// Returns whether others of the program wait until the place goes on.
fn is_waited_for(finding: &Finding) -> bool {
    let held = |evidence: &FindingEvidence| matches!(evidence, FindingEvidence::HoldsUp { .. });
    finding.evidence.iter().any(held)
}

/// Returns whether a thread works alone in the place: a change may hand on a part of it to others.
fn works_alone(finding: &Finding) -> bool {
    let alone = |evidence: &FindingEvidence| matches!(evidence, FindingEvidence::WorksAlone { .. });
    finding.evidence.iter().any(alone)
}

/// Returns what experiments predict, low and high, with the part of all samples that the line has which they speed up.
fn predicted_bounds(finding: &Finding) -> Option<(f64, f64, f64)> {
    let [low, high] = finding.amount.interval?;
    let share = finding
        .evidence
        .iter()
        .find_map(|evidence| match evidence {
            FindingEvidence::SampleShare { share } => Some(*share),
            _ => None,
        })?;
    (finding.amount.relative_to != AmountBase::WorkingTime).then_some((low, high, share))
}

/// Returns whether a prediction is of a place's waits, and not of its running.
pub(super) fn is_of_waits(finding: &Finding) -> bool {
    let of_waits =
        |evidence: &FindingEvidence| matches!(evidence, FindingEvidence::SpedUpWaits { .. });
    finding.evidence.iter().any(of_waits)
}
