//! The findings of all methods, combined into a ranked list of what to change first (ours).
//!
//! **One search over all the time.** Running and waiting are in one call tree, so that the search
//! for bottlenecks ([`crate::bottleneck::auto`]) finds call sequences that share no cost: no time
//! is counted twice.
//!
//! **The value of a sequence** is its virtual speedup ([`virtual_speedup`]): exact if it follows
//! from the times of threads, else as measured by experiments, else unknown. It comes with its part
//! of the working time, with the interval of the mean over several runs or, for one run, of its
//! sample count.
//!
//! **Places.** Time in the language's libraries belongs to their caller ([`libraries`]). A function
//! whose time is spread over many callees is one place ([`spread`]), and so is locking. A place is
//! never worse than the sequence that the search found: rules move it to the function that asked,
//! never to one that only leads to work, and keep the time that the search counts along the path. A
//! finding also names the function that asked for the place ([`asker`]), and the functions that
//! wait for it.
//!
//! **A runtime's own work** is one frame ([`RuntimeWork`]): it belongs to its caller, or is a
//! finding in the runtime's own terms.
//!
//! **Evidence.** A line or function is evidence for the sequence that contains most of its time.
//! Interference in functions of no sequence is a finding of its own.
//!
//! **Waiting for a CPU** is no part of the working time: code that runs less waits less. It is a
//! finding if the program's own limits are the reason. If other programs are, it is a statement
//! about the machine.
//!
//! **Rank** is by the saving at the lower end of the speedup's interval or, if that is unknown, by
//! the lower end of the part of the time. Findings below [`LEAST`] are not listed.

mod allocators;
mod asker;
mod frame_role;
mod libraries;
mod pairs;
mod sequences;
mod spread;
mod swapping;
mod thread_work;
mod timed_tree;
mod virtual_speedup;

pub use frame_role::{FrameRole, find_runtime_work};
pub use sequences::LEAST;
pub use thread_work::{NodeWork, ThreadWork};
pub use timed_tree::{PROCESS_START, THREAD_START};

use crate::bottleneck::auto;
use crate::bottleneck::forest::{Forest, ForestError, ProfiledRun};
use allocators::find_allocators;
use asker::{find_asker, find_starter};
use pairs::find_pairs;
use profile::known_code::{RUNTIME, RuntimeWork};
use profile::{
    AmountBase, AmountUnit, CallTree, CauseKind, Certainty, Claim, CpuTaker, EndingThread, Finding,
    FindingAmount, FindingDoubt, FindingEvidence, FindingPlace, MemoryNeed, NodeId, PlaceInCode,
    TimeKind, plain_name,
};
use sequences::{SOUGHT, Sequences, TimedSequence};
use spread::find_spread_times;
use std::collections::BTreeMap;
use swapping::{find_spread_swapping, find_touching};
use timed_tree::KERNEL;
use virtual_speedup::{UndisturbedRun, is_of_waits, measured_speedup};

/// Part of the time that the sequences should cover: more would add trivial ones.
const COVERAGE: f64 = 0.75;
/// Part of the working time above which waiting for a CPU is a cause.
const STARVED: f64 = 0.1;
/// Fewest runs whose variation gives the interval: that of two is as wide as the whole.
const FEWEST_RUNS: usize = 3;
/// Part of a place's time above which its callees are named, and the maximum number of these.
const CALLED_ENOUGH: f64 = 0.05;
const NAMED_CALLS: usize = 5;
/// Part of a place's time that waits must have for the threads that ended them to be named, and the
/// part of these waits that such a thread must have ended.
const WAITED_ENOUGH: f64 = 0.1;
const ENDED_ENOUGH: f64 = 0.1;
/// Part of the working time above which waits for a place are reported.
const HELD_ENOUGH: f64 = 0.1;
/// Part of a place's time by which a reason must exceed the stalls of the slowest instruction, over
/// all instructions, to be named; and the maximum number of named reasons. Tuned by
/// `benches/run_cases.py`.
const STALLED_MORE: f64 = 0.05;
const NAMED_STALLS: usize = 3;
/// Maximum number of other programs, or threads, that are named.
const NAMED_TAKERS: usize = 3;
/// Fewest samples of allocations with which allocating functions are named.
const FEWEST_ALLOCATIONS: f64 = 20.0;
/// Smallest part of these samples with which a function is named.
const ALLOCATED_ENOUGH: f64 = 0.1;
/// Maximum number of allocating functions that are named.
const NAMED_ALLOCATORS: usize = 3;

/// The measurements of all methods.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// Running and costly waits, in nanoseconds: the sum, and one value type for each of
    /// [`TimeKind::ALL`].
    pub tree: &'a CallTree,
    /// Trees like `tree` of further runs of the program, which show how runs differ.
    pub more_runs: &'a [CallTree],
    /// Time for which a sample of running threads stands, in nanoseconds.
    pub each_sample: f64,
    /// The duration of the run, in nanoseconds; 0 if unknown.
    pub run_ns: f64,
    /// Work of each thread that ran or waited for a notable time, without waits for other threads;
    /// empty if unknown.
    pub threads: &'a [ThreadWork],
    /// CPUs that the program may use; 0 if unknown.
    pub cpus: u32,
    /// The dearest line of each function that takes time.
    pub dear_lines: &'a [DearLine],
    /// Waits of the tree, by the thread that ended them.
    pub ended_waits: &'a [EndedWait],
    /// Time in which threads were ready to run, but had no CPU.
    pub cpu_waits: &'a CpuWaits,
    /// The number of CPUs that the program may use and the number of all CPUs, if it may not use
    /// all.
    pub confined: Option<(u32, u32)>,
    /// The memory that the program needed and the limit that it exceeded, if it swapped.
    pub memory: Option<MemoryNeed>,
    /// Findings about instructions of the hottest procedures that stall.
    pub stalls: &'a [Finding],
    /// Predictions of experiments.
    pub causal: &'a [Finding],
    /// Losses of threads to each other.
    pub interference: &'a [Finding],
    /// The frame that stands for a function of a runtime, by the function's plain name.
    pub in_runtimes: &'a BTreeMap<String, &'static str>,
    /// Path of the stored recording.
    pub stored: &'a str,
    /// Event of the samples of running threads.
    pub event: &'a str,
}

/// The line of a function that has most of the function's time, callees included.
#[derive(Clone, Debug, PartialEq)]
pub struct DearLine {
    /// The function, and its module.
    pub function: (String, String),
    /// `file:line`.
    pub line: String,
    /// The part of the function's time, 0 to 1.
    pub part: f64,
}

/// Waits at a node of the tree that one thread ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedWait {
    /// The node.
    pub node: NodeId,
    /// The thread that ended them.
    pub by: EndingThread,
    /// Duration of the waits, in nanoseconds.
    pub ns: u64,
}

/// Time in which threads were ready to run but had no CPU, by the program that ran there last
/// before they did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuWaits {
    /// Threads of the program itself, in nanoseconds.
    pub own_ns: u64,
    /// No program (the CPU was idle, or its user is unknown), in nanoseconds.
    pub nobody_ns: u64,
    /// Other machines on the same host, in nanoseconds.
    pub host_ns: u64,
    /// The profiler, in nanoseconds: no loss of the program.
    pub profiler_ns: u64,
    /// Other programs by name, in nanoseconds.
    pub others: BTreeMap<String, u64>,
}

impl CpuWaits {
    /// Returns the sum.
    pub fn total(&self) -> u64 {
        let known = self.own_ns + self.nobody_ns + self.host_ns + self.profiler_ns;
        known + self.others.values().sum::<u64>()
    }

    /// Reduces waits on idle CPUs until the sum is no more than the scheduler's account.
    pub fn limit_to(&mut self, accounted: u64) {
        let too_much = self.total().saturating_sub(accounted);
        self.nobody_ns = self.nobody_ns.saturating_sub(too_much);
    }

    /// Returns the waits that the program's own limits cause, in nanoseconds, the longest first.
    /// Waits of threads for each other are no loss if they use all CPUs.
    fn own_losses(&self, confined: Option<(u32, u32)>) -> Vec<(CpuTaker, u64)> {
        let mut losses = vec![(CpuTaker::Nobody, self.nobody_ns)];
        if let Some((allowed, online)) = confined {
            losses.push((CpuTaker::OwnThreads { allowed, online }, self.own_ns));
        }
        sort_losses(losses)
    }

    /// Returns the waits that other programs and machines cause, in nanoseconds, the longest first.
    fn losses_to_others(&self) -> Vec<(CpuTaker, u64)> {
        let others = self.others.iter();
        let other =
            |(name, ns): (&String, &u64)| (CpuTaker::OtherProgram { name: name.clone() }, *ns);
        let mut losses: Vec<_> = others.map(other).collect();
        losses.push((CpuTaker::OtherMachines, self.host_ns));
        sort_losses(losses)
    }
}

fn sort_losses(mut losses: Vec<(CpuTaker, u64)>) -> Vec<(CpuTaker, u64)> {
    losses.retain(|(_, ns)| *ns > 0);
    losses.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    losses
}

/// The combined findings: the vital few.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judgement {
    /// The findings, by saving at the lower end of the interval, descending.
    pub findings: Vec<Finding>,
    /// Waiting for CPUs that other programs or machines had, if it is long.
    pub machine: Option<Finding>,
    /// The part of the working time that the sequences among the findings have together.
    pub together: f64,
    /// The working time, in nanoseconds.
    pub working_ns: f64,
    /// The part of the remaining working time that waits.
    pub rest_waiting: f64,
}

/// Combines the findings.
///
/// # Errors
/// If nothing was measured.
pub fn judge_measured(measured: &Measured<'_>) -> Result<Judgement, ForestError> {
    let run = ProfiledRun {
        name: "the program".to_owned(),
        tree: measured.tree.clone(),
        value: 0,
        work: None,
    };
    let forest = Forest::single(run)?;
    let options = auto::Options {
        count: SOUGHT,
        coverage: COVERAGE,
        ..auto::Options::default()
    };
    // A single tree can always be united.
    let found = auto::search_causes(&forest, &options).unwrap_or_default();
    let are_locks_contended = measured.interference.iter().any(is_lock_contention);
    let mut sequences = find_sequences(measured.tree, &forest, &found, are_locks_contended);
    sequences.compare_runs(measured.more_runs);
    let cpu_waits = measured.cpu_waits.total() as f64;
    let run = UndisturbedRun::new(measured.run_ns, sequences.working_ns, cpu_waits)
        .on_threads(measured.threads, measured.cpus);
    Ok(Judge {
        sequences,
        measured,
        run,
    }
    .choose_and_order())
}

/// Returns whether threads certainly lose a notable time to each other at locks.
fn is_lock_contention(loss: &Finding) -> bool {
    let at_locks = |evidence: &FindingEvidence| match evidence {
        FindingEvidence::LossCause { cause, .. } => *cause == CauseKind::Lock,
        _ => false,
    };
    loss.amount.conservative() >= LEAST && loss.evidence.iter().any(at_locks)
}

/// Maps the sequences that the search found to the places that are worth naming.
fn find_sequences<'a>(
    tree: &'a CallTree,
    forest: &Forest,
    found: &auto::FoundSequences,
    are_locks_contended: bool,
) -> Sequences<'a> {
    let mut sequences = Sequences::new(tree);
    sequences.take_found(forest, found, are_locks_contended);
    let pairs = find_pairs(&sequences);
    sequences.unite_all(pairs);
    let spread = find_spread_times(&sequences);
    sequences.unite_all(spread);
    let touching = find_touching(&sequences);
    sequences.unite_all(touching.into_iter().collect());
    sequences
}

/// Waits that code of one place ended, in nanoseconds.
#[derive(Default)]
struct HeldWaits {
    /// Waiting time by the function that waited.
    by_function: BTreeMap<String, f64>,
    /// Waiting time by the kind of wait.
    by_kind: BTreeMap<TimeKind, f64>,
}

struct Judge<'a> {
    sequences: Sequences<'a>,
    measured: &'a Measured<'a>,
    run: UndisturbedRun<'a>,
}

impl<'a> Judge<'a> {
    fn choose_and_order(self) -> Judgement {
        let mut found = self.judge_sequences();
        // A place whose speedup does not follow from times counts with its part of the time.
        let is_worth = |finding: &Finding| finding.saving() >= LEAST;
        let listed: Vec<bool> = found.iter().map(is_worth).collect();
        let own = self.sequences.sequences.iter().zip(&listed);
        let own = own.filter(|(_, listed)| **listed);
        let mut together: f64 =
            own.map(|(own, _)| own.time()).sum::<f64>() / self.sequences.working_ns;
        let waits = self.measured.cpu_waits;
        let own_limit = self.no_cpu(waits.own_losses(self.measured.confined));
        let machine = self.no_cpu(waits.losses_to_others());
        let elsewhere = self.measured.interference.iter();
        let elsewhere = elsewhere.filter(|loss| is_worth(loss) && self.sequence_of(loss).is_none());
        let elsewhere: Vec<&Finding> = elsewhere.collect();
        together += elsewhere.iter().map(|loss| loss.amount.value).sum::<f64>();
        let swapping = self.spread_swapping(&listed);
        together += swapping.as_ref().map_or(0.0, |found| found.amount.value);
        self.show_overlap(&mut found, &listed);
        let mut findings: Vec<Finding> = found.into_iter().filter(is_worth).collect();
        findings.extend(elsewhere.into_iter().cloned());
        findings.extend(self.waits_elsewhere().filter(is_worth));
        findings.extend(swapping);
        findings.extend(own_limit);
        findings.sort_by(|a, b| b.saving().total_cmp(&a.saving()));
        Judgement {
            findings,
            machine,
            together: together.min(1.0),
            working_ns: self.sequences.working_ns,
            rest_waiting: self.sequences.waiting_elsewhere(),
        }
    }

    /// Returns a finding for each sequence, with the evidence of all methods.
    fn judge_sequences(&self) -> Vec<Finding> {
        let with_sequence = |findings: &'a [Finding]| -> Vec<(Option<usize>, &'a Finding)> {
            let findings = findings.iter();
            findings
                .map(|found| (self.sequence_of(found), found))
                .collect()
        };
        let causal = with_sequence(self.measured.causal);
        let interference = with_sequence(self.measured.interference);
        let stalls = with_sequence(self.measured.stalls);
        let held = self.waits_for_sequences();
        let sequences = self.sequences.sequences.iter().enumerate();
        let judged = sequences.map(|(number, sequence)| {
            let about = |(at, found): &(Option<usize>, &'a Finding)| {
                (*at == Some(number)).then_some(*found)
            };
            let predicted = causal.iter().filter_map(about);
            let (mut finding, measured) = self.judge_sequence(sequence, predicted);
            finding
                .evidence
                .extend(self.who_ended_waits(number, sequence));
            finding.evidence.extend(self.on_behalf_of(number));
            self.explain_runtime(number, &mut finding);
            finding.evidence.extend(self.dearest_line(number, sequence));
            let held = held.get(&number).and_then(|waits| self.holds_up(waits));
            finding.evidence.extend(held);
            finding
                .evidence
                .extend(self.run.works_alone(&self.sequences, number));
            let losses: Vec<&Finding> = interference.iter().filter_map(about).collect();
            for loss in &losses {
                add_evidence(&mut finding, loss);
            }
            finding.evidence.extend(contention_loss(&losses));
            if finding.spent_on() == Some(TimeKind::Computing) {
                let stalled: Vec<&Finding> = stalls.iter().filter_map(about).collect();
                finding
                    .evidence
                    .extend(self.explain_stalls(sequence, &stalled));
            }
            let speedup = self
                .run
                .speedup_of_sequence(&self.sequences, number, &finding);
            finding.evidence.extend(measured.or(speedup));
            finding
        });
        judged.collect()
    }

    /// Returns the slowest instruction of a sequence's hottest procedure, and the reasons that
    /// explain more of the sequence's time over all of its procedures.
    fn explain_stalls(
        &self,
        sequence: &TimedSequence,
        stalled: &[&Finding],
    ) -> Vec<FindingEvidence> {
        let is_sum = |one: &&FindingEvidence| matches!(one, FindingEvidence::StallSum { .. });
        let mut sums: BTreeMap<&str, [f64; 2]> = BTreeMap::new();
        let mut slowest = 0.0;
        for (number, stall) in stalled.iter().enumerate() {
            let weight = self.time_of_procedure(stall) / sequence.time();
            for evidence in &stall.evidence {
                match evidence {
                    FindingEvidence::StallSum {
                        culprit,
                        least,
                        most,
                    } => {
                        let sum = sums.entry(culprit).or_default();
                        *sum = [sum[0] + weight * least, sum[1] + weight * most];
                    }
                    FindingEvidence::HotInstruction { part, .. } if number == 0 => {
                        slowest = weight * part;
                    }
                    _ => {}
                }
            }
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.retain(|(_, [_, most])| *most >= slowest + STALLED_MORE);
        sums.sort_by(|a, b| b.1[1].total_cmp(&a.1[1]));
        let first = stalled.first().into_iter();
        let first = first.flat_map(|stall| stall.evidence.iter().filter(|one| !is_sum(one)));
        let sums = sums.into_iter().take(NAMED_STALLS);
        let sums = sums.map(|(culprit, [least, most])| FindingEvidence::StallSum {
            culprit: culprit.to_owned(),
            least: least.min(1.0),
            most: most.min(1.0),
        });
        first.cloned().chain(sums).collect()
    }

    /// Returns the running time of a finding's procedure; if the procedure has no own time, with
    /// the functions inlined into it.
    fn time_of_procedure(&self, finding: &Finding) -> f64 {
        let name = match &finding.place.what {
            PlaceInCode::Instruction { procedure, .. } => procedure.as_str(),
            _ => return 0.0,
        };
        let tree = &self.sequences.tree;
        let time = |nodes: Vec<std::ops::Range<usize>>| -> f64 {
            nodes
                .iter()
                .map(|nodes| self.sequences.time_of(nodes))
                .sum()
        };
        let own = time(tree.nodes_running(plain_name(name)));
        if own > 0.0 {
            own
        } else {
            time(tree.nodes_below(plain_name(name)))
        }
    }

    /// Adds the cause of a runtime's work to its finding, with the change that avoids it, and the
    /// command that shows its callers.
    fn explain_runtime(&self, number: usize, finding: &mut Finding) {
        let path = &self.sequences.sequences[number].path;
        let work = path
            .last()
            .and_then(|(name, module)| RuntimeWork::of_frame(name, module));
        let Some(work) = work else { return };
        let least = FEWEST_ALLOCATIONS * self.measured.each_sample;
        let allocators = find_allocators(&self.sequences.tree, work, least).into_iter();
        let allocators = allocators.filter(|(_, part)| *part >= ALLOCATED_ENOUGH);
        let allocators = allocators.take(NAMED_ALLOCATORS);
        finding.evidence.extend(
            allocators.map(|(function, part)| FindingEvidence::AllocatedBy { function, part }),
        );
        finding.evidence.push(FindingEvidence::SparedBy {
            change: work.spared_by.to_owned(),
        });
        if !work.callers.is_empty() {
            let Measured { stored, event, .. } = *self.measured;
            let words = [
                "vitalfew",
                "report",
                "--callers",
                work.callers,
                "--event",
                event,
                stored,
            ];
            finding.next = words.map(str::to_owned).to_vec();
        }
    }

    /// Returns the line of a sequence's function that has most of its time.
    fn dearest_line(&self, number: usize, sequence: &TimedSequence) -> Option<FindingEvidence> {
        let in_kernel = sequence
            .path
            .last()
            .is_some_and(|(_, module)| module == KERNEL);
        let asker = find_asker(&self.sequences, number).filter(|_| in_kernel);
        let asker = asker.map(|(asker, _)| asker);
        let asking = self.sequences.tree.asking_function(&sequence.path);
        let function = asker.as_ref().or(asking)?;
        let mut lines = self.measured.dear_lines.iter();
        let dear = lines.find(|dear| dear.function == *function)?;
        Some(FindingEvidence::DearLine {
            line: dear.line.clone(),
            part: dear.part,
        })
    }

    /// Returns the function of the program on whose behalf a sequence runs.
    fn on_behalf_of(&self, number: usize) -> Option<FindingEvidence> {
        let asker = if self.sequences.sequences[number].is_process_start() {
            find_starter(&self.sequences)
        } else {
            find_asker(&self.sequences, number)
        };
        let ((function, _), part) = asker?;
        Some(FindingEvidence::OnBehalfOf { function, part })
    }

    /// Returns the waits that code of each sequence ended, by the function that waited.
    fn waits_for_sequences(&self) -> BTreeMap<usize, HeldWaits> {
        let mut held: BTreeMap<usize, HeldWaits> = BTreeMap::new();
        let mut known: BTreeMap<&str, Option<usize>> = BTreeMap::new();
        for ended in self.measured.ended_waits {
            let Some(function) = ended.by.function.as_deref().filter(|_| ended.by.is_own) else {
                continue;
            };
            let sequence = *known.entry(function).or_insert_with(|| {
                let nodes = self.sequences.tree.nodes_below(function);
                self.sequences.main_worker(&nodes)
            });
            if let Some(sequence) = sequence {
                let waiting = self.sequences.tree.function_at(ended.node);
                let waits = held.entry(sequence).or_default();
                *waits.by_function.entry(waiting).or_default() += ended.ns as f64;
                if let Some(kind) = self.sequences.wait_kind_at(ended.node) {
                    *waits.by_kind.entry(kind).or_default() += ended.ns as f64;
                }
            }
        }
        held
    }

    /// Returns evidence that others wait long for code of a sequence.
    fn holds_up(&self, waits: &HeldWaits) -> Option<FindingEvidence> {
        let part = waits.by_function.values().sum::<f64>() / self.sequences.working_ns;
        let most = waits.by_function.iter().max_by(|a, b| a.1.total_cmp(b.1));
        let (waiting, _) = most?;
        let kind = waits.by_kind.iter().max_by(|a, b| a.1.total_cmp(b.1));
        (part >= HELD_ENOUGH).then(|| FindingEvidence::HoldsUp {
            waiting: waiting.clone(),
            on: kind.map(|(kind, _)| *kind),
            part: part.min(1.0),
        })
    }

    /// Returns the threads that ended most of a sequence's waits, the most frequent first.
    fn who_ended_waits(&self, number: usize, sequence: &TimedSequence) -> Vec<FindingEvidence> {
        let mut enders: BTreeMap<&EndingThread, f64> = BTreeMap::new();
        for ended in self.measured.ended_waits {
            if self.sequences.owner_of(ended.node) == Some(number) {
                *enders.entry(&ended.by).or_default() += ended.ns as f64;
            }
        }
        let waited = sequence.time() - sequence.time_running();
        let mut enders: Vec<_> = enders.into_iter().collect();
        enders.sort_by(|a, b| b.1.total_cmp(&a.1));
        enders.retain(|(_, ns)| {
            *ns >= ENDED_ENOUGH * waited && waited >= WAITED_ENOUGH * sequence.time()
        });
        let enders = enders.into_iter().take(NAMED_TAKERS);
        let enders = enders.map(|(by, ns)| FindingEvidence::WaitEnded {
            by: by.clone(),
            part: (ns / waited).min(1.0),
        });
        enders.collect()
    }

    /// Adds to each finding the part of its calls' time that listed sequences have.
    fn show_overlap(&self, found: &mut [Finding], listed: &[bool]) {
        for (sequence, finding) in self.sequences.sequences.iter().zip(found) {
            let shared = sequence.shared.iter();
            let shared = shared.filter(|(other, _)| listed.get(**other) == Some(&true));
            let shared: f64 = shared.map(|(_, time)| *time).sum();
            let part = shared / self.sequences.working_ns;
            if part > 0.0 {
                let counted = FindingEvidence::CountedElsewhere { part };
                finding.evidence.push(counted);
            }
        }
    }

    /// Returns the sequence that has most of a finding's time: a line's own time, or the time of a
    /// function with losses together with its callees.
    fn sequence_of(&self, finding: &Finding) -> Option<usize> {
        let procedure = match &finding.place.what {
            PlaceInCode::Line { procedure, .. }
            | PlaceInCode::Procedure { name: procedure }
            | PlaceInCode::Instruction { procedure, .. }
            | PlaceInCode::Lock { procedure } => procedure,
            _ => return None,
        };
        let tree = &self.sequences.tree;
        if is_of_waits(finding) {
            // Functions of the C library lie between the waiting line and its system call.
            let nodes = tree.nodes_below(plain_name(procedure));
            return self.sequences.main_waiter(&nodes);
        }
        let plain = plain_name(procedure);
        let nodes = match finding.claim {
            Claim::LosesTime => tree.nodes_below(plain),
            _ => tree.nodes_running(plain),
        };
        if finding.claim == Claim::Stalls {
            // All of a procedure's time may lie in functions inlined into it.
            let own = self.sequences.main_owner(&nodes);
            return own.or_else(|| self.sequences.main_owner(&tree.nodes_below(plain)));
        }
        match self.measured.in_runtimes.get(plain) {
            // One frame stands for all functions of a runtime's work.
            Some(frame) if nodes.is_empty() && finding.claim == Claim::LosesTime => {
                self.sequences.main_owner(&tree.nodes_below(frame))
            }
            _ if finding.claim == Claim::LosesTime => self.sequences.largest_owner(&nodes),
            _ => self.sequences.main_owner(&nodes),
        }
    }

    /// Returns a sequence as its part of the working time, with the experiments on its code and the
    /// virtual speedup that they measured.
    fn judge_sequence<'f>(
        &self,
        sequence: &TimedSequence,
        predicted: impl Iterator<Item = &'f Finding>,
    ) -> (Finding, Option<FindingEvidence>) {
        let worth = |finding: &&Finding| finding.amount.conservative().abs();
        let mut finding = self.time_of_sequence(sequence);
        let runs = finding.spent_on().is_some_and(TimeKind::is_running);
        // Experiments speed up either code that runs or its waits: only those of the kind that
        // takes most of the time apply.
        let predicted = predicted.filter(|found| is_of_waits(found) != runs);
        let predicted = predicted.max_by(|a, b| worth(a).total_cmp(&worth(b)));
        let Some(predicted) = predicted else {
            return (finding, None);
        };
        finding.evidence.extend(predicted.evidence.iter().cloned());
        // A line is only a part of a place with many callees.
        let measured = measured_speedup(predicted).filter(|_| !sequence.is_united);
        (finding, measured)
    }

    /// Returns waits outside of all sequences that are worth something, such as a helper's sleep
    /// that others depend on.
    fn waits_elsewhere(&self) -> impl Iterator<Item = Finding> {
        let predicted = self.measured.causal.iter();
        let worth = predicted.filter(|found| {
            is_of_waits(found)
                && found.claim == Claim::WorthSpeedup
                && self.sequence_of(found).is_none()
        });
        worth.map(|found| {
            let mut finding = found.clone();
            finding.evidence.extend(measured_speedup(found));
            finding
        })
    }

    /// Returns a sequence as its part of the working time.
    fn time_of_sequence(&self, sequence: &TimedSequence) -> Finding {
        let time = sequence.time();
        let kinds = TimeKind::ALL.iter().zip(sequence.times);
        let sampled = sequence.time_sampled();
        let samples = sampled / self.measured.each_sample.max(1.0);
        let (low, high) = crate::statistics::interval_of_count(samples);
        let waiting = time - sampled;
        let part = |time: f64| (time / self.sequences.working_ns).clamp(0.0, 1.0);
        let mut spent: Vec<(TimeKind, f64)> = kinds.map(|(kind, time)| (*kind, time)).collect();
        spent.sort_by(|a, b| b.1.total_cmp(&a.1));
        spent.retain(|(_, at)| *at >= 0.05 * time);
        let swaps = spent.iter().any(|(kind, _)| *kind == TimeKind::Swapping);
        let need = self.measured.memory.filter(|_| swaps);
        let one_run = FindingAmount {
            value: part(time),
            interval: Some([
                part(low * self.measured.each_sample + waiting),
                part(high * self.measured.each_sample + waiting),
            ]),
            unit: AmountUnit::Fraction,
            relative_to: AmountBase::WorkingTime,
            certainty: Certainty::UpperBound,
        };
        let several = match sequence.parts.len() {
            FEWEST_RUNS.. => crate::statistics::interval_of_runs(&sequence.parts, &[]),
            _ => None,
        };
        let path = self.sequences.without_wrappers(&sequence.path);
        let asker = path.iter().rev().find(|(_, module)| module != KERNEL);
        let image = asker.filter(|(_, module)| module != RUNTIME);
        let image = image.map(|(_, module)| module.clone());
        Finding {
            claim: Claim::TakesTime,
            place: FindingPlace {
                image,
                what: PlaceInCode::CallPath {
                    path: path.iter().map(|(name, _)| name.clone()).collect(),
                },
            },
            amount: match several {
                Some(runs) => FindingAmount {
                    value: runs.estimate,
                    interval: Some([runs.low.max(0.0), runs.high.min(1.0)]),
                    ..one_run
                },
                None => one_run,
            },
            evidence: (spent.into_iter())
                .map(|(on, at)| FindingEvidence::TimeSpent {
                    on,
                    part: at / time,
                })
                .chain(time_in_callees(sequence))
                .chain(need.map(|need| FindingEvidence::MemoryShort { need }))
                .collect(),
            doubts: match several {
                Some(_) => Vec::new(),
                None => vec![FindingDoubt::OneRun],
            },
            next: command_for_sequences(self.measured.stored),
        }
    }

    /// Returns the swapping at places that are not listed, with the gain of avoiding it.
    fn spread_swapping(&self, listed: &[bool]) -> Option<Finding> {
        let need = self.measured.memory;
        let next = command_for_sequences(self.measured.stored);
        let mut finding = find_spread_swapping(&self.sequences, listed, need, &next)?;
        let speedup = self.run.speedup_of_part(&finding, &self.sequences);
        finding.evidence.extend(speedup);
        Some(finding)
    }

    /// Returns the waiting for a CPU, if it is long, as a part of the working time plus the
    /// waiting.
    fn no_cpu(&self, losses: Vec<(CpuTaker, u64)>) -> Option<Finding> {
        let lost = losses.iter().map(|(_, ns)| *ns as f64).sum::<f64>();
        let part = lost / (self.sequences.working_ns + lost);
        let takers = losses.into_iter().take(NAMED_TAKERS);
        let takers = takers.map(|(by, ns)| FindingEvidence::CpuTaken {
            by,
            part: ns as f64 / lost,
        });
        let spent = FindingEvidence::TimeSpent {
            on: TimeKind::NoCpu,
            part: 1.0,
        };
        let finding = Finding {
            claim: Claim::TakesTime,
            place: FindingPlace::default(),
            amount: FindingAmount {
                value: part,
                interval: Some([part, part]),
                unit: AmountUnit::Fraction,
                relative_to: AmountBase::WorkingTime,
                certainty: Certainty::UpperBound,
            },
            evidence: std::iter::once(spent).chain(takers).collect(),
            doubts: vec![FindingDoubt::OneRun],
            next: command_for_whole_machine(),
        };
        (part >= STARVED).then_some(finding)
    }
}

/// Returns the callees of a place by time, the largest first.
fn time_in_callees(sequence: &TimedSequence) -> impl Iterator<Item = FindingEvidence> {
    let time = sequence.time();
    let mut called: Vec<_> = sequence.in_callees.iter().collect();
    called.retain(|(_, part)| **part >= CALLED_ENOUGH * time);
    called.sort_by(|a, b| b.1.total_cmp(a.1));
    let called = called.into_iter().take(NAMED_CALLS);
    called.map(move |(function, part)| FindingEvidence::TimeCalling {
        function: function.clone(),
        part: part / time,
    })
}

/// Adds the loss of threads in a function to the finding that contains its time.
fn add_evidence(finding: &mut Finding, loss: &Finding) {
    finding.evidence.extend(loss.evidence.iter().cloned());
    finding.doubts.extend(loss.doubts.iter().cloned());
}

/// Returns the sum of the losses of functions: each has its own, without its callees'.
fn contention_loss(losses: &[&Finding]) -> Option<FindingEvidence> {
    let sum = |of: &dyn Fn(&FindingAmount) -> f64| -> f64 {
        let parts = losses.iter().map(|loss| of(&loss.amount));
        parts.sum::<f64>().min(1.0)
    };
    let end = |at: usize| sum(&|amount| amount.interval.map_or(amount.value, |ends| ends[at]));
    (!losses.is_empty()).then(|| FindingEvidence::ContentionLoss {
        part: sum(&|amount| amount.value),
        interval: [end(0), end(1)],
    })
}

/// Returns the command that shows the call sequences of a recording.
fn command_for_sequences(stored: &str) -> Vec<String> {
    let words = ["vitalfew", "bottlenecks", "--auto", stored];
    words.map(str::to_owned).to_vec()
}

/// Returns the command that shows which programs use the CPUs.
fn command_for_whole_machine() -> Vec<String> {
    let words = ["vitalfew", "record", "-a", "--for", "10s"];
    words.map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests;
