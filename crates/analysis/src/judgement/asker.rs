//! The function on whose behalf a call sequence runs (ours): for a disk's flush far below the
//! program's own functions, the one that asked for it.

use super::sequences::{PROGRAM, Sequences};
use super::timed_tree::{KERNEL, MethodName};
use profile::{KERNEL_CALL, NodeId};
use std::collections::BTreeMap;

/// The least part of a sequence's time that one function must ask for to be its asker.
const ASKS: f64 = 0.8;

/// Returns the outermost function that asks for most of a sequence's time, but not for most of the
/// program, with the part that it asks for. `None` if there is none, or the sequence begins with
/// it.
pub(super) fn find_asker(sequences: &Sequences<'_>, number: usize) -> Option<(MethodName, f64)> {
    let tree = &sequences.tree;
    let known = sequences.sequences.get(number)?;
    let nodes = sequences.nodes_of_sequence(number);
    let (_, hottest) = nodes.map(|(node, time)| (time, node)).max()?;
    let part_asked_by = |function: &MethodName| {
        let times = sequences.time_by_owner(&tree.nodes_of_function(function));
        times.get(&Some(number)).copied().unwrap_or(0.0) / known.time()
    };
    // A function that asks for most of the sequence also calls its hottest node.
    let callers: Vec<_> = tree.callers_of(hottest).collect();
    let outermost = callers.iter().rev().filter_map(|node| tree.name_at(*node));
    let mut known_to_author = tree.known_to_author(outermost).into_iter();
    let (asker, part) = known_to_author.find_map(|function| {
        let part = part_asked_by(&function);
        let below = sequences.time_of_function(&function);
        let calls: Vec<NodeId> = tree.outermost_calls(&function);
        let asks =
            part >= ASKS && below <= PROGRAM * sequences.working_ns && !sequences.is_entry(&calls);
        asks.then_some((function, part))
    })?;
    (!known.path.contains(&asker)).then_some((asker, part))
}

/// System calls that start processes and threads.
pub(super) const STARTS: [&str; 4] = ["clone", "clone3", "fork", "vfork"];

/// Returns the outermost function that starts most of the program's processes, with its part, by
/// the kernel's time for starting them. `None` if there is none, or if it has most of the program.
pub(super) fn find_starter(sequences: &Sequences<'_>) -> Option<(MethodName, f64)> {
    let tree = &sequences.tree;
    let starts = tree.nodes_of_methods(|method| {
        let call = method.name.strip_suffix(KERNEL_CALL);
        method.module == KERNEL && call.is_some_and(|call| STARTS.contains(&call))
    });
    let all: f64 = starts.iter().map(|nodes| sequences.time_of(nodes)).sum();
    let mut askers: BTreeMap<MethodName, f64> = BTreeMap::new();
    for nodes in &starts {
        let first = NodeId(u32::try_from(nodes.start).ok()?);
        let callers: Vec<_> = tree.callers_of(first).collect();
        let mut outermost = callers.iter().rev().filter_map(|node| tree.name_at(*node));
        let asker = outermost.find(|function| {
            let is_known = function.1 != KERNEL && !tree.leads_to_work(function);
            is_known && sequences.time_of_function(function) <= PROGRAM * sequences.working_ns
        });
        if let Some(asker) = asker {
            *askers.entry(asker).or_default() += sequences.time_of(nodes);
        }
    }
    let (asker, most) = askers.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (most > 0.0 && most >= ASKS * all).then_some((asker, most / all))
}
