//! The functions whose allocations a garbage collector collects (ours): those that take time, or
//! find the heap full.

use super::libraries::is_nameless;
use super::timed_tree::{KERNEL, TimedTree};
use profile::known_code::{RuntimeWork, is_glue};
use profile::{NodeId, plain_name};
use std::collections::BTreeMap;
use std::ops::Range;

/// Returns the functions that allocate for a runtime's collector, each with its part of the time
/// that allocations take: largest part first. Empty if all of them take less than `least`
/// nanoseconds. The functions that allocate most find the heap full, so a collection during an
/// allocation counts as allocation.
pub(super) fn find_allocators(
    tree: &TimedTree<'_>,
    work: &RuntimeWork,
    least: f64,
) -> Vec<(String, f64)> {
    let allocations = tree.nodes_of_methods(|method| {
        let is_collector = RuntimeWork::of_frame(&method.name, &method.module) == Some(work);
        work.is_collection && (is_collector || work.is_allocator(&method.name))
    });
    let mut times: BTreeMap<String, f64> = BTreeMap::new();
    for nodes in allocations {
        let first = NodeId(nodes.start as u32);
        if let Some(function) = asking_function(tree, first) {
            *times.entry(function).or_default() += time_of(tree, &nodes);
        }
    }
    let all: f64 = times.values().sum();
    let mut parts: Vec<(String, f64)> = times
        .into_iter()
        .filter(|_| all >= least && all > 0.0)
        .map(|(function, time)| (function, time / all))
        .collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    parts
}

fn time_of(tree: &TimedTree<'_>, nodes: &Range<usize>) -> f64 {
    let [start, end] = [nodes.start, nodes.end].map(|at| NodeId(at as u32));
    tree.tree().cost_of(0, start, end) as f64
}

/// Returns the innermost function of the program around a call; `None` if the runtime acts by
/// itself.
fn asking_function(tree: &TimedTree<'_>, node: NodeId) -> Option<String> {
    let mut callers = tree.callers_of(node).filter_map(|at| tree.name_at(at));
    let function = callers.find(|function| {
        let is_library = function.1 == KERNEL || tree.is_library(function);
        !is_library && !is_glue(&function.0) && !is_nameless(&function.0)
    });
    function.map(|(name, _)| plain_name(&name).to_owned())
}
