//! The tree of the callers of a procedure.

use crate::report::{CallNode, functions_at, is_wanted, sample_amount};
use crate::selection::SampleFilter;
use profile::{EventId, Location, Recording, SymbolTable};
use rustc_hash::FxHashMap;

/// Returns the callers of `procedure`, from it outwards, below a root that holds all samples. Without a
/// procedure of exactly this name, all whose name contains it are meant. A recursive procedure counts once, at its outermost
/// call.
pub fn callers_tree(
    recording: &Recording,
    table: &SymbolTable,
    filter: &SampleFilter,
    event: EventId,
    procedure: &str,
    inlined: bool,
) -> CallNode {
    let mut names: FxHashMap<Location, Vec<String>> = FxHashMap::default();
    for frame in recording.stacks.frames() {
        names
            .entry(frame.location)
            .or_insert_with(|| functions_at(table, frame.location, inlined));
    }
    let is_exact = names.values().flatten().any(|name| name == procedure);
    let is_meant = |name: &str| match is_exact {
        true => name == procedure,
        false => name.contains(procedure),
    };
    let mut root = CallNode::new(String::new());
    for sample in &recording.samples {
        if sample.event != event || !is_wanted(recording, table, filter, sample) {
            continue;
        }
        let amount = sample_amount(recording, sample);
        root.inclusive += amount;
        let mut locations: Vec<Location> = recording.stacks.locations(sample.stack).collect();
        locations.reverse();
        let mut outside: Vec<(String, String)> = Vec::new();
        let process = recording.names.get(sample.process);
        outside.push((format!("process {process}"), String::new()));
        let mut is_found = false;
        'stack: for location in locations {
            let image = &recording.image(location.image).path;
            for name in names.get(&location).into_iter().flatten() {
                outside.push((name.clone(), image.clone()));
                if is_meant(name) {
                    is_found = true;
                    break 'stack;
                }
            }
        }
        if !is_found {
            continue;
        }
        let mut node = &mut root;
        for (name, image) in outside.into_iter().rev() {
            node = node.child_named(name, image);
            node.inclusive += amount;
        }
    }
    root
}
