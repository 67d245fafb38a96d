//! Reads vitalfew's own recordings.

use super::draft::{Owner, TreeDraft};
use super::error::{FilePosition, ReadFault};
use super::options::{GroupBy, ReadLimits, ReadOptions};
use super::tree_profile::TreeProfile;
use crate::frame::{Namer, base_name, process_name};
use crate::write::error::check_recording;
use crate::write::paths::StackPaths;
use crate::write::rows::{SampleRow, add_up};
use crate::write::{WriteError, WriteOptions};
use profile::{
    CallTreeError, DraftNode, Event, Location, MethodId, NameId, Recording, SymbolTable, Unit,
    ValueType,
};
use rustc_hash::FxHashMap;

/// Owner of a sample, by which samples are grouped.
type Key = (NameId, Option<u32>, Option<u32>, Option<u32>);

/// Returns the recording as a call tree: the same tree as reading the output of
/// [`crate::write::pprof`] or another writer.
///
/// There is a value type for each event, in samples (`count × multiplex_scale`, rounded once for
/// each call path) or nanoseconds. Methods are named as the writers name functions, and the module
/// is the last part of the image's path. The wakers of waits are not in the tree. A thread's name
/// counts as its process's, as in the kernel.
///
/// # Errors
/// If the recording contradicts itself, or its costs do not fit in 63 bits.
pub fn from_recording(
    recording: &Recording,
    symbols: &SymbolTable,
    options: &ReadOptions,
) -> Result<TreeProfile, WriteError> {
    check_recording(recording)?;
    let value_types = recording.events.iter().map(value_type).collect();
    let unlimited = ReadOptions {
        limits: ReadLimits {
            memory: u64::MAX,
            ratio: u64::MAX,
            depth: u32::MAX,
        },
        ..options.clone()
    };
    let mut draft = TreeDraft::new(value_types, &unlimited);
    fill_from_recording(&mut draft, recording, symbols, options)
        .and_then(|()| draft.finish_tree("vitalfew recording"))
        .map_err(|fault| match fault {
            ReadFault::Tree(source) => WriteError::NoTree(source),
            // Without limits and without a file, no other fault is possible.
            _ => WriteError::NoTree(CallTreeError::TooLarge),
        })
}

fn value_type(event: &Event) -> ValueType {
    ValueType {
        name: event.name.clone(),
        unit: match event.unit {
            Unit::Samples => "samples".to_owned(),
            Unit::Nanoseconds => "nanoseconds".to_owned(),
        },
    }
}

/// Adds a recording's stacks and samples to a draft that has a value type for each event.
pub(super) fn fill_from_recording(
    draft: &mut TreeDraft,
    recording: &Recording,
    symbols: &SymbolTable,
    options: &ReadOptions,
) -> Result<(), ReadFault> {
    let paths = method_paths(draft, recording, symbols, options)?;
    let mut groups: FxHashMap<Key, DraftNode> = FxHashMap::default();
    let by_slice = options.group_by.contains(&GroupBy::Slice);
    let mut rows = Vec::with_capacity(recording.samples.len());
    for sample in &recording.samples {
        let slice = sample.slice.filter(|_| by_slice);
        let key = (sample.process, sample.pid, sample.tid, slice);
        let group = match groups.get(&key) {
            Some(group) => *group,
            None => {
                let group = group_of_key(draft, recording, key)?;
                groups.insert(key, group);
                group
            }
        };
        let key = (group, paths.node_of_stack(sample.stack), sample.event);
        rows.push(SampleRow::new(key, sample));
    }
    let at = FilePosition::Offset(0);
    // By path: the last group with it, and its node there. Rows come in the order of their groups.
    let mut known = vec![(DraftNode::ROOT, DraftNode::ROOT); paths.iter_nodes().len()];
    let mut missing = Vec::new();
    for row in add_up(rows) {
        let (group, path, event) = row.key;
        let (mut node, mut next) = (group, path);
        while let Some(path) = next {
            let (of_group, found) = known[path];
            if of_group == group && found != DraftNode::ROOT {
                node = found;
                break;
            }
            missing.push(path);
            next = paths.node(path).and_then(|(caller, _)| caller);
        }
        while let Some(path) = missing.pop() {
            let Some((_, method)) = paths.node(path) else {
                break;
            };
            node = draft.child_node(node, MethodId(method as u32), at)?;
            known[path] = (group, node);
        }
        let index = usize::from(event.0);
        if let Some(event) = recording.events.get(index) {
            let value = i64::try_from(row.event_value(event)).unwrap_or(i64::MAX);
            draft.add_cost(index, node, value);
        }
    }
    Ok(())
}

/// Returns the stacks as paths of methods.
fn method_paths(
    draft: &mut TreeDraft,
    recording: &Recording,
    symbols: &SymbolTable,
    options: &ReadOptions,
) -> Result<StackPaths, ReadFault> {
    let namer = Namer::new(
        recording,
        symbols,
        &WriteOptions {
            inline: options.inline,
            ..WriteOptions::default()
        },
    );
    let (mut places, mut unnamed) = (0_u64, 0_u64);
    let mut failed = Ok(());
    let mut of_location: FxHashMap<Location, Vec<usize>> = FxHashMap::default();
    let wanted = recording.samples.iter().map(|sample| sample.stack);
    let paths = StackPaths::new(&recording.stacks, wanted, |location, numbers| {
        let methods = of_location.entry(location).or_insert_with(|| {
            places += 1;
            unnamed += u64::from(!namer.knows_location(location));
            methods_at(draft, recording, namer, location, options.lines).unwrap_or_else(|fault| {
                failed = Err(fault);
                Vec::new()
            })
        });
        numbers.extend(methods.iter());
    });
    failed?;
    if unnamed > 0 {
        draft.add_note(format!(
            "{unnamed} of {places} places have no function name and are named by their address"
        ));
    }
    for event in &recording.events {
        let given_up = event.dropped.saturating_add(event.lost);
        if given_up > 0 {
            draft.add_note(format!("{given_up} samples of {} were lost", event.name));
        }
    }
    for warning in recording.problems() {
        draft.add_note(warning);
    }
    Ok(paths)
}

/// Returns the methods at a location, innermost first.
fn methods_at(
    draft: &mut TreeDraft,
    recording: &Recording,
    namer: Namer<'_>,
    location: Location,
    lines: bool,
) -> Result<Vec<usize>, ReadFault> {
    let module = base_name(recording.image(location.image));
    namer
        .functions_at(location)
        .map(|function| {
            let line = function.line.filter(|_| lines);
            let method = match line {
                Some(line) => draft.intern_method(&format!("{}:{line}", function.name), module),
                None => draft.intern_method(&function.name, module),
            };
            method.map(|method| method.0 as usize)
        })
        .collect()
}

fn group_of_key(
    draft: &mut TreeDraft,
    recording: &Recording,
    key: Key,
) -> Result<DraftNode, ReadFault> {
    let (name, pid, tid, slice) = key;
    let name = process_name(recording.names.get(name));
    let owner = Owner {
        host: Some(&recording.host.name),
        process: Some(name),
        pid: pid.map(i64::from),
        thread: Some(name),
        tid: tid.map(i64::from),
        slice,
    };
    draft.group_node(&owner, FilePosition::Offset(0))
}
