//! Functions whose time is spread over many callees that have only them in common (ours).
//!
//! The search for bottlenecks prefers specific sequences. For a query that scans a table it finds
//! the comparison of two values, the decoding of a row, and five more, none of which anybody would
//! change. They have the function in common that asked for the query. This module looks for that
//! function from the root of the tree downwards. It passes functions that only lead to work, and
//! functions that have nearly all of the time, as long as one callee has most of theirs and has no
//! other caller. A function that has nearly all of the time is taken if it also works itself and
//! nothing was found below: a loop that calls small functions. A function is not taken if few found
//! sequences have most of its time, because these say more, nor if its callees are such functions.

use super::libraries::belong_together;
use super::sequences::{DOMINATES, DRIVER, OWN_WORK, PROGRAM, Sequences, UnitedPlace};
use super::timed_tree::{KERNEL, MethodName};
use profile::{NodeId, TimeKind};
use std::collections::BTreeSet;

/// The least part of the working time of such a function.
const NOTABLE: f64 = 0.1;
/// The part of a callee's time that one caller must have to be its only caller.
const EXCLUSIVE: f64 = 0.95;
/// The part of a function's time above which a sequence in it says more than the function,
const STRONG: f64 = 0.25;
/// if all such sequences together have this part.
const EXPLAINED: f64 = 0.6;
/// The same threshold for a function that has nearly all of the program, and so says less. Tuned by
/// `benches/run_cases.py`.
const PROGRAM_EXPLAINED: f64 = 0.4;
/// The part of a sequence's time that must lie in a function for the sequence to be inside of it.
const INSIDE: f64 = 0.9;
/// Maximum depth of calls, which bounds recursion.
const DEEPEST: usize = 200;

/// Finds the functions whose time is spread.
pub(super) fn find_spread_times(sequences: &Sequences<'_>) -> Vec<UnitedPlace> {
    let mut search = Search {
        sequences,
        seen: BTreeSet::new(),
        found: Vec::new(),
    };
    search.walk_down(&[NodeId::ROOT], 0);
    search.found
}

struct Search<'a, 'b> {
    sequences: &'a Sequences<'b>,
    seen: BTreeSet<MethodName>,
    found: Vec<UnitedPlace>,
}

impl Search<'_, '_> {
    /// Looks at the callees of some nodes.
    fn walk_down(&mut self, nodes: &[NodeId], depth: usize) {
        if depth > DEEPEST {
            return;
        }
        for (function, (time, nodes)) in self.sequences.tree.work_called_by(nodes) {
            let part = time / self.sequences.working_ns;
            if part < NOTABLE || function.1 == KERNEL {
                continue;
            }
            if part > PROGRAM {
                self.look_inside(function, &nodes, depth);
            } else {
                self.look_at(function, &nodes, depth);
            }
        }
    }

    /// Looks at a function that has a part of the program's time.
    fn look_at(&mut self, function: MethodName, nodes: &[NodeId], depth: usize) {
        if depth > DEEPEST || !self.seen.insert(function.clone()) {
            return;
        }
        let tree = &self.sequences.tree;
        let Some(inside) = self.scattered_sequences(&function, EXPLAINED) else {
            return;
        };
        let time: f64 = nodes
            .iter()
            .map(|node| tree.tree().cum_cost(0, *node) as f64)
            .sum();
        let callees = tree.work_called_by(nodes).into_iter();
        let most = callees.max_by(|a, b| a.1.0.total_cmp(&b.1.0));
        let is_most = time > DRIVER * self.sequences.working_ns;
        let dominating = most.filter(|(_, (most, _))| *most >= DOMINATES * time);
        match dominating {
            Some((callee, (most, nodes))) if self.is_only_for(&callee, &function, most) => {
                self.look_at(callee, &nodes, depth + 1);
            }
            _ if self.sequences.is_entry(nodes) => self.look_inside(function, nodes, depth),
            None if is_most => self.look_inside(function, nodes, depth),
            None => self.look_at_fork(function, inside, nodes, depth),
            Some(_) => self.add_place(function, inside),
        }
    }

    /// Looks at a function none of whose callees has most of its time: some of them may explain it.
    fn look_at_fork(
        &mut self,
        function: MethodName,
        inside: Vec<usize>,
        nodes: &[NodeId],
        depth: usize,
    ) {
        let known = self.found.len();
        self.walk_down(nodes, depth + 1);
        let ranges = self.sequences.tree.nodes_of_function(&function);
        let running = self.running_time(&ranges);
        let callees = self.found[known..].iter().flat_map(|place| &place.path);
        let callees = callees.filter(|callee| belong_together(callee, &function));
        let times = callees.map(|callee| {
            let mut inner = self.sequences.tree.nodes_of_function(callee);
            inner.retain(|inner| ranges.iter().any(|outer| outer.contains(&inner.start)));
            self.running_time(&inner)
        });
        let strong = times.filter(|time| *time >= STRONG * running);
        if strong.sum::<f64>() < EXPLAINED * running {
            self.found.truncate(known);
            self.add_place(function, inside);
        }
    }

    /// Looks at the callees of a function that has nearly all of the time; if nothing is found
    /// there, at the function itself.
    fn look_inside(&mut self, function: MethodName, nodes: &[NodeId], depth: usize) {
        let known = self.found.len();
        self.walk_down(nodes, depth + 1);
        let tree = self.sequences.tree.tree();
        let own: i64 = nodes.iter().map(|node| tree.cost(0, *node)).sum();
        let all: i64 = nodes.iter().map(|node| tree.cum_cost(0, *node)).sum();
        let works = own as f64 >= OWN_WORK * all as f64;
        if self.found.len() == known
            && works
            && let Some(inside) = self.scattered_sequences(&function, PROGRAM_EXPLAINED)
        {
            self.add_place(function, inside);
        }
    }

    fn add_place(&mut self, function: MethodName, inside: Vec<usize>) {
        let path = vec![function];
        self.found.push(UnitedPlace { path, inside });
    }

    /// Returns the sequences in a function, if its running time is notable and no few sequences
    /// explain it by their part of that time.
    fn scattered_sequences(&self, function: &MethodName, explained: f64) -> Option<Vec<usize>> {
        let ranges = self.sequences.tree.nodes_of_function(function);
        let running = self.running_time(&ranges);
        let inside = self.sequences_inside(&ranges);
        let sequences = inside.iter().map(|at| &self.sequences.sequences[*at]);
        // The work of other functions on the path below it explains nothing.
        let times = sequences.map(|sequence| match sequence.path.last() {
            Some(last) if last == function => sequence.time_running(),
            _ => sequence.time_running() - sequence.along,
        });
        let strong = times.filter(|time| *time >= STRONG * running);
        let notable = running >= NOTABLE * self.sequences.working_ns;
        (notable && strong.sum::<f64>() < explained * running).then_some(inside)
    }

    /// Returns whether a callee has only one caller, in the same image or package.
    fn is_only_for(&self, callee: &MethodName, caller: &MethodName, for_caller: f64) -> bool {
        let all = self.sequences.time_of_function(callee);
        belong_together(callee, caller) && callee != caller && for_caller >= EXCLUSIVE * all
    }

    /// Returns the running time below a function, in nanoseconds.
    fn running_time(&self, ranges: &[std::ops::Range<usize>]) -> f64 {
        let tree = self.sequences.tree.tree();
        let kinds = (1..).zip(TimeKind::ALL);
        let running = kinds.filter(|(_, kind)| kind.is_running());
        let node = |at: usize| NodeId(at as u32);
        running
            .flat_map(|(value, _)| ranges.iter().map(move |nodes| (value, nodes)))
            .map(|(value, nodes)| tree.cost_of(value, node(nodes.start), node(nodes.end)) as f64)
            .sum()
    }

    /// Returns the sequences of running threads that lie in a function.
    fn sequences_inside(&self, ranges: &[std::ops::Range<usize>]) -> Vec<usize> {
        let times = self.sequences.time_by_owner(ranges).into_iter();
        let inside = times.filter_map(|(at, time)| {
            let sequence = &self.sequences.sequences[at?];
            let all = sequence.time();
            let runs = sequence.time_running() >= all / 2.0;
            (runs && time >= INSIDE * all).then_some(at?)
        });
        inside.collect()
    }
}
