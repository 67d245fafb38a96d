//! Translation of a tree of locations into one of methods.

use super::contents::PprofFile;
use super::samples::SampleLabel;
use super::tables::{IdTable, LocationEntry, MappingEntry, Strings};
use crate::frame::{base_of_path, process_name};
use crate::read::draft::{Owner, TreeDraft};
use crate::read::error::{FilePosition, ReadFault};
use crate::read::options::ReadOptions;
use profile::{DraftNode, MethodId, ValueType};
use regex::Regex;
use std::borrow::Cow;

/// Limit on the automata of the file's regular expressions, in bytes.
const REGEX_SIZE: usize = 1 << 20;

/// The place of a node in the tree, for the nodes below it.
#[derive(Clone, Copy)]
struct TreePosition {
    node: DraftNode,
    /// True if any frame so far was to be kept.
    interesting: bool,
    /// Nodes below have no frames of their own.
    cut: bool,
}

pub(super) fn translate_profile(
    file: PprofFile,
    options: &ReadOptions,
    end: FilePosition,
) -> Result<TreeDraft, ReadFault> {
    let width = file.samples.width.unwrap_or(file.value_types.len());
    if width != file.value_types.len() {
        let types = file.value_types.len();
        let what = format!("samples of {width} values where {types} types are declared");
        return Err(ReadFault::damaged(what, end));
    }
    let value_types = file
        .value_types
        .iter()
        .map(|(name, unit)| {
            let name = lossy_text(&file.strings, *name, end)?.into_owned();
            let unit = lossy_text(&file.strings, *unit, end)?.into_owned();
            Ok(ValueType { name, unit })
        })
        .collect::<Result<Vec<_>, ReadFault>>()?;
    let mut draft = TreeDraft::new(value_types, options);
    if let Some(default) = file
        .value_types
        .iter()
        .position(|(name, _)| *name == file.default && *name != 0)
    {
        draft.default_value = default;
    } else {
        // As in pprof.
        draft.default_value = width.saturating_sub(1);
    }
    draft.charge_memory(file.memory_size(), end)?;
    let mut translation = Translation::new(file, options, draft, end)?;
    translation.translate_samples()?;
    translation.add_notes();
    Ok(translation.draft)
}

struct Translation<'o> {
    file: PprofFile,
    options: &'o ReadOptions,
    draft: TreeDraft,
    /// End of the file: the place reported for faults that are only found there.
    end: FilePosition,
    functions: IdTable,
    mappings: IdTable,
    drop: Option<Drop>,
    host: Option<String>,
    unsymbolised: u64,
}

/// The frames that the file wants dropped.
struct Drop {
    drop: Regex,
    keep: Option<Regex>,
    dropped: u64,
}

/// Methods at a location, outermost first, and the ones that the file wants dropped.
#[derive(Clone, Default)]
struct LocationFrames {
    methods: Vec<MethodId>,
    /// True if all of them are dropped, with their callees.
    drop: bool,
    /// True if some inlined ones were dropped: the callees of this location are dropped, too.
    drop_callees: bool,
}

impl<'o> Translation<'o> {
    fn new(
        mut file: PprofFile,
        options: &'o ReadOptions,
        mut draft: TreeDraft,
        end: FilePosition,
    ) -> Result<Self, ReadFault> {
        let mut functions = IdTable::default();
        let all = std::mem::take(&mut file.functions);
        let mut by_index = Vec::new();
        for function in all {
            put_at(&mut by_index, functions.index_of(function.id), function);
        }
        file.functions = by_index;
        let mut mappings = IdTable::default();
        let all = std::mem::take(&mut file.mappings);
        let mut by_index = Vec::new();
        for mapping in all {
            put_at(&mut by_index, mappings.index_of(mapping.id), mapping);
        }
        file.mappings = by_index;
        let drop = Drop::new(&file, &mut draft, end)?;
        let host = file.comments.iter().find_map(|comment| {
            // As vitalfew writes it.
            let comment = lossy_text(&file.strings, *comment, end).ok()?;
            let host = comment.strip_prefix("host: ")?.split(',').next()?;
            Some(host.to_owned())
        });
        Ok(Self {
            file,
            options,
            draft,
            end,
            functions,
            mappings,
            drop,
            host,
            unsymbolised: 0,
        })
    }

    fn translate_samples(&mut self) -> Result<(), ReadFault> {
        let nodes = std::mem::take(&mut self.file.samples.nodes);
        let values = std::mem::take(&mut self.file.samples.values);
        let width = self.file.value_types.len();
        let root = TreePosition {
            node: DraftNode::ROOT,
            interesting: false,
            cut: false,
        };
        let mut places = Vec::with_capacity(nodes.len());
        places.push(root);
        let mut frames: Vec<Option<LocationFrames>> = Vec::new();
        let mut values = drain_entries(values).skip(width);
        for (parent, location) in drain_entries(nodes).skip(1) {
            // A parent comes before its children.
            let mut place = places.get(parent as usize).copied().unwrap_or(root);
            if parent == 0 {
                place.node = self.group_node(location)?;
            } else if !place.cut {
                let known = location as usize;
                if frames.len() <= known {
                    frames.resize(known + 1, None);
                }
                match frames.get_mut(known) {
                    Some(Some(entry)) => self.descend_to_location(&mut place, entry)?,
                    Some(entry) => {
                        let found = self.location_frames(location)?;
                        self.descend_to_location(&mut place, entry.insert(found))?;
                    }
                    None => {}
                }
            }
            for (value, cost) in values.by_ref().take(width).enumerate() {
                if cost != 0 {
                    self.draft.add_cost(value, place.node, cost);
                }
            }
            places.push(place);
        }
        Ok(())
    }

    /// Returns the child node of a location, unless the file wants that dropped.
    fn descend_to_location(
        &mut self,
        place: &mut TreePosition,
        frames: &LocationFrames,
    ) -> Result<(), ReadFault> {
        let drop = frames.drop || frames.drop_callees;
        if drop
            && place.interesting
            && let Some(rules) = &mut self.drop
        {
            rules.dropped += 1;
            place.cut = true;
            if frames.drop {
                return Ok(());
            }
        }
        for method in &frames.methods {
            place.node = self.draft.child_node(place.node, *method, self.end)?;
        }
        place.interesting |= !drop;
        Ok(())
    }

    fn group_node(&mut self, labels: u32) -> Result<DraftNode, ReadFault> {
        let labels = self.file.samples.labels.get_index(labels as usize);
        let labels = labels.cloned().unwrap_or_default();
        let strings = &self.file.strings;
        let find = |keys: &[&str]| {
            let matches = |label: &&SampleLabel| {
                let key = strings.get(label.key).unwrap_or_default();
                keys.iter()
                    .any(|wanted| key.eq_ignore_ascii_case(wanted.as_bytes()))
            };
            labels.iter().find(matches)
        };
        let name = |keys: &[&str]| {
            let label = find(keys)?;
            match strings.get(label.text).filter(|text| !text.is_empty()) {
                Some(text) => Some(String::from_utf8_lossy(text).into_owned()),
                // The label exists and is empty.
                None if label.number == 0 => Some(process_name("").to_owned()),
                None => None,
            }
        };
        let number = |keys: &[&str]| {
            let label = find(keys)?;
            let text = strings.get(label.text).filter(|t| !t.is_empty());
            let parsed = text.and_then(|t| std::str::from_utf8(t).ok()?.parse().ok());
            parsed.or((label.text == 0).then_some(label.number))
        };
        let process = name(&["process", "process_name", "process name", "comm"]);
        let thread = name(&["thread_name", "thread name", "thread"]).or_else(|| process.clone());
        let host = name(&["host", "hostname", "node"]).or_else(|| self.host.clone());
        let owner = Owner {
            host: host.as_deref(),
            process: process.as_deref(),
            pid: number(&["pid", "process_id", "process id"]),
            thread: thread.as_deref(),
            tid: number(&["tid", "thread_id", "thread id"]),
            slice: None,
        };
        self.draft.group_node(&owner, self.end)
    }

    /// Returns the methods of a location.
    fn location_frames(&mut self, index: u32) -> Result<LocationFrames, ReadFault> {
        let location = self.file.locations.get(index);
        if !location.defined {
            let what = "a sample refers to a location that is not there";
            return Err(ReadFault::damaged(what, self.end));
        }
        let mapping = self.mappings.get(location.mapping);
        let mapping = mapping
            .and_then(|m| self.file.mappings.get(m as usize))
            .copied();
        if mapping.is_none() && location.mapping != 0 {
            let what = format!(
                "a location refers to mapping {}, which is not there",
                location.mapping
            );
            return Err(ReadFault::damaged(what, self.end));
        }
        let filename = lossy_text(
            &self.file.strings,
            mapping.unwrap_or_default().filename,
            self.end,
        )?;
        let module = match &*filename {
            "" => String::new(),
            path => base_of_path(path).to_owned(),
        };
        let lines = self.file.locations.lines_of(&location).to_vec();
        let Some(outermost) = lines.len().checked_sub(1) else {
            self.unsymbolised += 1;
            let name = unnamed_place(&location, mapping.as_ref(), &module);
            let methods = vec![self.draft.intern_method(&name, &module)?];
            return Ok(LocationFrames {
                methods,
                ..LocationFrames::default()
            });
        };
        let mut frames = LocationFrames::default();
        // Innermost first in the file: a dropped frame drops the ones before it.
        for (depth, line) in lines.iter().enumerate() {
            let name = self.function_name(line.function)?;
            if let Some(drop) = &self.drop
                && drop.matches_function(&name)
            {
                frames.methods.clear();
                frames.drop_callees = true;
                frames.drop = depth == outermost;
                if !frames.drop {
                    continue;
                }
            }
            if !self.options.inline && depth != outermost {
                continue;
            }
            let name = match name.is_empty() {
                true => unnamed_place(&location, mapping.as_ref(), &module),
                false if self.options.lines && line.line > 0 => format!("{name}:{}", line.line),
                false => name,
            };
            frames
                .methods
                .push(self.draft.intern_method(&name, &module)?);
        }
        frames.methods.reverse();
        Ok(frames)
    }

    fn function_name(&mut self, id: u64) -> Result<String, ReadFault> {
        let function = self
            .functions
            .get(id)
            .and_then(|f| self.file.functions.get(f as usize));
        let Some(function) = function else {
            // Then the place is named by its address.
            self.draft
                .add_note("some places refer to functions that are not there");
            return Ok(String::new());
        };
        let name = lossy_text(&self.file.strings, function.name, self.end)?;
        if name.is_empty() {
            Ok(lossy_text(&self.file.strings, function.system_name, self.end)?.into_owned())
        } else {
            Ok(name.into_owned())
        }
    }

    fn add_notes(&mut self) {
        if self.unsymbolised > 0 {
            self.draft.add_note(format!(
                "{} places have no function name and are named by their address",
                self.unsymbolised
            ));
        }
        if let Some(drop) = &self.drop
            && drop.dropped > 0
        {
            self.draft.add_note(format!(
                "frames that match {} were left out, as the profile itself asks",
                drop.drop.as_str()
            ));
        }
    }
}

impl Drop {
    fn new(
        file: &PprofFile,
        draft: &mut TreeDraft,
        end: FilePosition,
    ) -> Result<Option<Self>, ReadFault> {
        let pattern = lossy_text(&file.strings, file.drop_frames, end)?;
        if file.drop_frames == 0 || pattern.is_empty() {
            return Ok(None);
        }
        let whole = |pattern: &str| {
            regex::RegexBuilder::new(&format!("^(?:{pattern})$"))
                .size_limit(REGEX_SIZE)
                .build()
        };
        let keep = lossy_text(&file.strings, file.keep_frames, end)?;
        let keep = (file.keep_frames != 0 && !keep.is_empty())
            .then(|| whole(&keep))
            .transpose();
        match (whole(&pattern), keep) {
            (Ok(drop), Ok(keep)) => Ok(Some(Self {
                drop,
                keep,
                dropped: 0,
            })),
            _ => {
                draft.add_note("the profile asks for frames to be left out by an expression that is not understood; they are in");
                Ok(None)
            }
        }
    }

    fn matches_function(&self, name: &str) -> bool {
        self.drop.is_match(name) && !self.keep.as_ref().is_some_and(|keep| keep.is_match(name))
    }
}

/// Yields the entries in order. Their memory returns to the system meanwhile (which only takes
/// large pieces), because the results need as much.
fn drain_entries<T>(mut all: Vec<T>) -> impl Iterator<Item = T> {
    let piece = (32 << 20) / size_of::<T>();
    let mut pieces = Vec::new();
    while all.len() > piece {
        pieces.push(all.split_off(all.len() - piece));
        all.shrink_to_fit();
    }
    pieces.push(all);
    pieces.into_iter().rev().flatten()
}

fn put_at<T: Default + Clone>(all: &mut Vec<T>, index: u32, value: T) {
    let index = index as usize;
    if all.len() <= index {
        all.resize(index + 1, T::default());
    }
    if let Some(entry) = all.get_mut(index) {
        *entry = value;
    }
}

fn lossy_text(strings: &Strings, index: u64, end: FilePosition) -> Result<Cow<'_, str>, ReadFault> {
    match strings.get(index) {
        Some(bytes) => Ok(String::from_utf8_lossy(bytes)),
        // A profile without any string still has the empty one.
        None if index == 0 => Ok(Cow::Borrowed("")),
        None => {
            let what = format!("string {index} of {} is referred to", strings.len());
            Err(ReadFault::damaged(what, end))
        }
    }
}

/// Returns the name of a place without a function.
fn unnamed_place(location: &LocationEntry, mapping: Option<&MappingEntry>, module: &str) -> String {
    match mapping {
        Some(mapping) if !module.is_empty() => {
            let offset = location
                .address
                .wrapping_sub(mapping.start)
                .wrapping_add(mapping.offset);
            format!("{module}+{offset:#x}")
        }
        _ if location.address == 0 => "[unknown]".to_owned(),
        _ => format!("{:#x}", location.address),
    }
}
