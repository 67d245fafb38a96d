//! On whose behalf a call sequence runs (ours): of a disk's flush far below a program's own functions, the one of these that asked for it.

use super::libraries::is_language_library;
use super::sequences::{PROGRAM, Sequences};
use super::timed_tree::{KERNEL, MethodName};
use crate::bottleneck::glue::is_glue;
use profile::NodeId;
use std::collections::BTreeMap;

/// The part of a sequence's time that one function asks for, or nobody in particular does.
const ASKS: f64 = 0.8;

/// Returns the outermost function that asks for most of a sequence's time, but not for most of the program, with the part that it asks for.
/// `None` if there is none, or the sequence begins with it.
pub(super) fn find_asker(sequences: &Sequences<'_>, number: usize) -> Option<(MethodName, f64)> {
    let tree = &sequences.tree;
    let mut hottest = (0, NodeId::ROOT);
    let mut asked: BTreeMap<MethodName, f64> = BTreeMap::new();
    let mut all = 0.0;
    for (node, time) in sequences.nodes_of_sequence(number) {
        all += time as f64;
        hottest = hottest.max((time, node));
        let mut callers: Vec<MethodName> = tree
            .callers_of(node)
            .filter_map(|at| tree.name_at(at))
            .collect();
        callers.sort_unstable();
        callers.dedup();
        for caller in callers {
            *asked.entry(caller).or_default() += time as f64;
        }
    }
    let callers: Vec<NodeId> = tree.callers_of(hottest.1).collect();
    let mut outermost = callers.iter().rev().filter_map(|node| tree.name_at(*node));
    let asker = outermost.find(|function| {
        let enough = asked.get(function).is_some_and(|time| *time >= ASKS * all);
        let below = tree.nodes_of_function(function);
        let below: f64 = below.iter().map(|nodes| sequences.time_of(nodes)).sum();
        enough && below <= PROGRAM * sequences.working_ns && is_of_the_program(function)
    })?;
    let path = &sequences.sequences.get(number)?.path;
    let part = asked.get(&asker)? / all;
    (!path.contains(&asker)).then_some((asker, part))
}

/// Returns whether a function can be one that a program's author knows.
fn is_of_the_program((name, module): &MethodName) -> bool {
    name != "main"
        && !name.starts_with('[')
        && !is_glue(name)
        && module != KERNEL
        && !is_language_library(module)
}
