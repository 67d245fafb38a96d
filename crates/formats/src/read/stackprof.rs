//! stackprof's profiles of Ruby programs, in either form: JSON, or that of `Marshal.dump`.

use super::draft::{Owner, TreeDraft};
use super::error::{FilePosition, ReadFault};
use super::options::ReadOptions;
use super::skipped::Skipped;
use crate::frame::base_of_path;
use profile::{MethodId, ValueType};
use rustc_hash::FxHashMap;

#[derive(Debug, Default)]
pub(crate) struct StackprofFrame {
    pub name: String,
    pub file: String,
    pub line: Option<i64>,
    /// Samples in which the frame was innermost.
    pub samples: i64,
}

#[derive(Debug, Default)]
pub(crate) struct StackprofProfile {
    /// `wall`, `cpu`, `object`, `custom`.
    pub mode: String,
    /// Microseconds between samples, or objects.
    pub interval: f64,
    pub frames: FxHashMap<u64, StackprofFrame>,
    /// Sequence of: length, frames from the outermost, count.
    pub raw: Option<Vec<u64>>,
}

/// Builds the tree of a profile.
pub(crate) fn build_tree(
    profile: &StackprofProfile,
    options: &ReadOptions,
    used: u64,
) -> Result<TreeDraft, ReadFault> {
    if profile.mode.is_empty() && profile.frames.is_empty() {
        return Err(ReadFault::damaged(
            "neither a mode nor frames",
            FilePosition::Offset(0),
        ));
    }
    let value_type = |name: &str, unit: &str| ValueType {
        name: name.to_owned(),
        unit: unit.to_owned(),
    };
    let mut value_types = vec![value_type("samples", "samples")];
    let second = match profile.mode.as_str() {
        "wall" | "cpu" => Some((value_type(&profile.mode, "nanoseconds"), 1000.0)),
        "object" => Some((value_type("allocations", "objects"), 1.0)),
        _ => None,
    };
    let factor = second
        .as_ref()
        .map_or(0.0, |(_, factor)| factor * profile.interval);
    value_types.extend(second.map(|(value_type, _)| value_type));
    let is_timed = value_types.len() > 1;
    let mut draft = TreeDraft::new(value_types, options);
    draft.charge_memory(used, FilePosition::Offset(0))?;
    let add = |draft: &mut TreeDraft, node, count: i64| {
        draft.add_cost(0, node, count);
        if is_timed {
            draft.add_cost(1, node, (count as f64 * factor).round() as i64);
        }
    };
    let mut methods = FxHashMap::default();
    let Some(raw) = &profile.raw else {
        draft.add_note("the profile has no stacks (raw: true), only the samples of each function");
        let mut frames: Vec<_> = profile
            .frames
            .iter()
            .filter(|(_, f)| f.samples != 0)
            .collect();
        frames.sort_by_key(|(id, _)| **id);
        for (id, frame) in frames {
            let at = FilePosition::Offset(0);
            let root = draft.group_node(&Owner::default(), at)?;
            let method = frame_method(&mut draft, &mut methods, profile, *id, options)?;
            let node = draft.child_node(root, method, at)?;
            add(&mut draft, node, frame.samples);
        }
        return Ok(draft);
    };
    let (mut skipped, mut read) = (Skipped::new("frames"), 0);
    let mut rest = raw.as_slice();
    while let Some((length, stack)) = rest.split_first() {
        let at = FilePosition::Row {
            table: "raw",
            row: (raw.len() - rest.len()) as u64,
        };
        let length = usize::try_from(*length).unwrap_or(usize::MAX);
        let Some((stack, [count, after @ ..])) = stack.split_at_checked(length) else {
            return Err(ReadFault::damaged(
                format!("a stack of {length} frames, beyond the end"),
                at,
            ));
        };
        rest = after;
        let mut node = draft.group_node(&Owner::default(), at)?;
        for frame in stack {
            if !profile.frames.contains_key(frame) {
                skipped.skip_part(format!("frame {frame} is not there"), at);
                continue;
            }
            read += 1;
            let method = frame_method(&mut draft, &mut methods, profile, *frame, options)?;
            node = draft.child_node(node, method, at)?;
        }
        add(&mut draft, node, i64::try_from(*count).unwrap_or(i64::MAX));
    }
    skipped.note_skipped(read, &mut draft)?;
    Ok(draft)
}

fn frame_method(
    draft: &mut TreeDraft,
    methods: &mut FxHashMap<u64, MethodId>,
    profile: &StackprofProfile,
    id: u64,
    options: &ReadOptions,
) -> Result<MethodId, ReadFault> {
    if let Some(method) = methods.get(&id) {
        return Ok(*method);
    }
    let frame = profile.frames.get(&id);
    let name = frame.map_or("", |frame| frame.name.as_str());
    let name = if name.is_empty() { "(no name)" } else { name };
    let module = frame.map_or("", |frame| match frame.file.as_str() {
        "" => "",
        file => base_of_path(file),
    });
    let line = frame.and_then(|frame| frame.line).filter(|_| options.lines);
    let method = match line {
        Some(line) => {
            draft.add_note("lines are those where functions begin");
            draft.intern_method(&format!("{name}:{line}"), module)?
        }
        None => draft.intern_method(name, module)?,
    };
    methods.insert(id, method);
    Ok(method)
}
