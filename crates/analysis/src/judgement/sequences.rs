//! The call sequences that a program's time lies in, each with the time that no other one has.

use super::timed_tree::{KERNEL, MethodName, SequenceCall, TimedTree};
use crate::bottleneck::auto::FoundSequences;
use crate::bottleneck::forest::Forest;
use crate::bottleneck::interface::Profile;
use profile::{CallTree, NodeId, TimeKind};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Range;

/// The part of the working time, or of the program's speed, below which nothing is worth a sentence.
pub const LEAST: f64 = 0.02;
/// Sequences that are looked for.
pub(super) const SOUGHT: usize = 8;
/// A function of the C library on the way to the kernel is called by one function, if that has so much of the time.
const ONE_CALLER: f64 = 0.8;
/// Functions on the way to the kernel, at most: those of a file's stream are the most.
const LONGEST_WAY_TO_KERNEL: usize = 12;

/// A call sequence with the time that no other one has.
pub(super) struct TimedSequence {
    pub(super) path: Vec<MethodName>,
    /// By kind, in nanoseconds.
    pub(super) times: [f64; TimeKind::ALL.len()],
    /// The time of its calls that other sequences have, by their numbers, in nanoseconds.
    pub(super) shared: FxHashMap<usize, f64>,
    /// Its part of the working time in each run, if there are several.
    pub(super) parts: Vec<f64>,
}

impl TimedSequence {
    /// Returns the time, in nanoseconds.
    pub(super) fn time(&self) -> f64 {
        self.times.iter().sum()
    }
}

/// Sequences that have no time in common.
pub(super) struct Sequences<'a> {
    pub(super) tree: TimedTree<'a>,
    /// The sum of all time, in nanoseconds; never 0.
    pub(super) working_ns: f64,
    pub(super) sequences: Vec<TimedSequence>,
    /// The sequence that has each node.
    owners: Vec<Option<usize>>,
}

impl<'a> Sequences<'a> {
    pub(super) fn new(tree: &'a CallTree) -> Self {
        Self {
            tree: TimedTree::new(tree),
            working_ns: (tree.total(0) as f64).max(1.0),
            sequences: Vec::new(),
            owners: vec![None; tree.len()],
        }
    }

    pub(super) fn take_found(&mut self, forest: &Forest, found: &FoundSequences) {
        // The most specific ones first, as the search counts what two share.
        let mut order: Vec<_> = found.bottlenecks.iter().collect();
        order.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        for bottleneck in order {
            let steps = forest.path_of(&bottleneck.sequence).iter();
            let methods = steps.map(|step| forest.method(*step));
            let path = methods.map(|m| (m.name.clone(), m.module.clone()));
            for path in self.with_askers(path.collect()) {
                self.take_sequence(path);
            }
        }
    }

    /// Makes the sequences of one that begins in the kernel begin with who asked: its caller, and on through the C library, which only
    /// hands the call on. Of several callers each is a sequence of its own, if it has enough time.
    fn with_askers(&self, path: Vec<MethodName>) -> Vec<Vec<MethodName>> {
        let mut done = Vec::new();
        let calls = self.tree.calls_of(&path);
        let mut open = vec![(path, calls)];
        while let Some((path, calls)) = open.pop() {
            let in_kernel = path.first().is_some_and(|(_, module)| module == KERNEL);
            if path.len() > LONGEST_WAY_TO_KERNEL || !in_kernel && !is_way_to_kernel(&path) {
                done.push(path);
                continue;
            }
            let all: f64 = calls.iter().map(|call| self.tree.time_of(*call)).sum();
            let enough = match in_kernel {
                true => LEAST * self.working_ns,
                false => ONE_CALLER * all,
            };
            let callers = self.callers_of(&calls, enough);
            if callers.is_empty() {
                done.push(path);
                continue;
            }
            open.extend(callers.into_iter().map(|(caller, calls)| {
                let caller = std::iter::once(caller);
                (caller.chain(path.iter().cloned()).collect(), calls)
            }));
        }
        done
    }

    /// The callers of a sequence's calls that have enough time, with the calls that they make: those that have most.
    fn callers_of(
        &self,
        calls: &[SequenceCall],
        enough: f64,
    ) -> Vec<(MethodName, Vec<SequenceCall>)> {
        let mut callers: BTreeMap<MethodName, (f64, Vec<SequenceCall>)> = BTreeMap::new();
        // One below the root has no caller.
        for call in calls {
            if let Some((caller, with_caller)) = self.tree.with_caller(*call) {
                let (time, calls) = callers.entry(caller).or_default();
                *time += self.tree.time_of(*call);
                calls.push(with_caller);
            }
        }
        let mut callers: Vec<_> = callers.into_iter().collect();
        callers.retain(|(_, (time, _))| *time > 0.0 && *time >= enough);
        callers.sort_by(|a, b| b.1.0.total_cmp(&a.1.0).then_with(|| a.0.cmp(&b.0)));
        callers.truncate(SOUGHT);
        let calls = callers.into_iter();
        calls.map(|(caller, (_, calls))| (caller, calls)).collect()
    }

    /// Looks for the same sequences in further runs, in the same order, so that they share no time there either.
    pub(super) fn compare_runs(&mut self, more: &[CallTree]) {
        let part = |run: &Sequences<'_>, at: usize| run.sequences[at].time() / run.working_ns;
        let count = 0..self.sequences.len();
        let mut parts: Vec<Vec<f64>> = count.map(|at| vec![part(self, at)]).collect();
        for tree in more {
            let mut other = Sequences::new(tree);
            for sequence in &self.sequences {
                other.take_sequence(sequence.path.clone());
            }
            for (at, parts) in parts.iter_mut().enumerate() {
                parts.push(part(&other, at));
            }
        }
        for (sequence, parts) in self.sequences.iter_mut().zip(parts) {
            sequence.parts = parts;
        }
    }

    /// Adds the time below all calls of a sequence that no other one has taken.
    pub(super) fn take_sequence(&mut self, path: Vec<MethodName>) {
        let own = self.sequences.len();
        let calls = self.tree.calls_of(&path);
        let mut sequence = TimedSequence {
            path,
            times: [0.0; TimeKind::ALL.len()],
            shared: FxHashMap::default(),
            parts: Vec::new(),
        };
        for node in calls.into_iter().flat_map(|call| self.tree.nodes_of(call)) {
            let at = NodeId(node as u32);
            match self.owners[node] {
                None => {
                    self.owners[node] = Some(own);
                    for (kind, time) in sequence.times.iter_mut().enumerate() {
                        *time += self.tree.tree().cost(1 + kind, at) as f64;
                    }
                }
                Some(owner) => {
                    *sequence.shared.entry(owner).or_insert(0.0) +=
                        self.tree.tree().cost(0, at) as f64;
                }
            }
        }
        self.sequences.push(sequence);
    }

    /// Returns how the time of some nodes is spread over sequences, in nanoseconds; `None`: it is in none of them.
    pub(super) fn time_by_owner(&self, nodes: &[Range<usize>]) -> BTreeMap<Option<usize>, f64> {
        let mut times = BTreeMap::new();
        for node in nodes.iter().cloned().flatten() {
            let time = self.tree.tree().cost(0, NodeId(node as u32)) as f64;
            *times.entry(self.owners[node]).or_insert(0.0) += time;
        }
        times
    }

    /// Returns the part of the working time that waits and is in no sequence.
    pub(super) fn waiting_elsewhere(&self) -> f64 {
        let left = (0..self.owners.len()).filter(|node| self.owners[*node].is_none());
        let waiting = left.map(|node| {
            let kinds = TimeKind::ALL.iter().enumerate();
            let waits = kinds.filter(|(_, kind)| !is_running(**kind));
            let node = NodeId(node as u32);
            waits
                .map(|(at, _)| self.tree.tree().cost(1 + at, node))
                .sum::<i64>()
        });
        waiting.sum::<i64>() as f64 / self.working_ns
    }
}

/// Returns a path to the kernel, without the C library's functions that only hand the call on.
pub(super) fn without_wrappers(path: &[MethodName]) -> Vec<MethodName> {
    let mut path = path.to_vec();
    let is_kernel = |(_, module): &MethodName| module == KERNEL;
    let mut at = path.iter().position(is_kernel).unwrap_or(0);
    while at > 1 && is_c_library(&path[at - 1].1) {
        at -= 1;
        path.remove(at);
    }
    path
}

/// Returns whether a path leads through the C library alone into the kernel.
fn is_way_to_kernel(path: &[MethodName]) -> bool {
    let Some((last, before)) = path.split_last() else {
        return false;
    };
    last.1 == KERNEL && before.iter().all(|(_, module)| is_c_library(module))
}

fn is_c_library(module: &str) -> bool {
    let file = module.rsplit('/').next().unwrap_or_default();
    let libraries = ["libc.so", "libc-", "libpthread", "ld-linux", "ld-musl"];
    libraries.iter().any(|library| file.starts_with(library))
}

/// Returns whether a thread runs while it spends its time so.
pub(super) fn is_running(kind: TimeKind) -> bool {
    matches!(
        kind,
        TimeKind::Computing | TimeKind::SystemCalls | TimeKind::PageFaults
    )
}
