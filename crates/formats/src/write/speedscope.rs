//! speedscope's own JSON file format.
//!
//! One `sampled` profile whose root frames are the processes. A recording counts samples without
//! their times, so there is no time axis, as the profile's name says. Stacks come in the order of
//! the tree, the heaviest first: speedscope's "time order" view then equals "left heavy", and shows
//! no phases that were not recorded. Frames are functions (name and file): lines would split a
//! function into one frame for each sampled line.

use crate::frame::{Namer, process_name};
use crate::write::error::check_with_event;
use crate::write::paths::StackPaths;
use crate::write::rows::{SampleRow, add_up, samples_of};
use crate::write::{WriteError, WriteOptions};
use indexmap::IndexSet;
use profile::{NameId, Recording, SymbolTable, Unit};
use rustc_hash::{FxBuildHasher, FxHashMap};
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::io::{BufWriter, Write};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SpeedscopeFile<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    name: &'a str,
    exporter: &'static str,
    active_profile_index: u32,
    shared: SpeedscopeShared<'a>,
    profiles: [SpeedscopeProfile<'a>; 1],
}

#[derive(Serialize)]
struct SpeedscopeShared<'a> {
    frames: &'a IndexSet<SpeedscopeFrame<'a>, FxBuildHasher>,
}

#[derive(PartialEq, Eq, Hash, Serialize)]
struct SpeedscopeFrame<'a> {
    name: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SpeedscopeProfile<'a> {
    r#type: &'static str,
    name: &'a str,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: SpeedscopeSamples<'a>,
    weights: Vec<u64>,
}

/// The stacks, outermost frame first, made one at a time while they are written.
struct SpeedscopeSamples<'a> {
    /// The frame of the process and the innermost node below it.
    ends: Vec<(usize, Option<usize>)>,
    paths: &'a StackPaths,
}

impl Serialize for SpeedscopeSamples<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.ends.iter().map(|(process, node)| {
            let mut frames: Vec<usize> = self.paths.innermost_first(*node).collect();
            frames.push(*process);
            frames.reverse();
            frames
        }))
    }
}

/// Returns the rows in the order of a tree whose heaviest branches come first.
fn heaviest_first<'r>(
    rows: &'r [SampleRow<(NameId, Option<usize>)>],
    paths: &StackPaths,
) -> Vec<&'r SampleRow<(NameId, Option<usize>)>> {
    let mut processes: FxHashMap<NameId, u64> = FxHashMap::default();
    let mut nodes = vec![0u64; paths.iter_nodes().len()];
    for row in rows {
        let (process, node) = row.key;
        let total = processes.entry(process).or_default();
        *total = total.saturating_add(row.magnitude());
        if let Some(node) = node {
            nodes[node] = nodes[node].saturating_add(row.magnitude());
        }
    }
    let places = paths.heaviest_first(nodes);
    let mut ordered: Vec<_> = rows.iter().collect();
    ordered.sort_by_key(|row| {
        let (process, node) = row.key;
        (
            Reverse(processes[&process]),
            process,
            node.map(|node| places[node]),
        )
    });
    ordered
}

/// Writes one event of a recording in speedscope's file format.
///
/// # Errors
/// If the output fails, the event does not exist, or the recording contradicts itself.
pub fn write_speedscope(
    recording: &Recording,
    symbols: &SymbolTable,
    options: &WriteOptions,
    out: &mut dyn Write,
) -> Result<(), WriteError> {
    check_with_event(recording, options.event)?;
    let event = recording.events.get(usize::from(options.event.0));
    let namer = Namer::new(recording, symbols, options);
    let mut frames: IndexSet<SpeedscopeFrame, FxBuildHasher> = IndexSet::default();
    let wanted = samples_of(recording, options.event).map(|sample| sample.stack);
    let paths = StackPaths::new(&recording.stacks, wanted, |location, numbers| {
        numbers.extend(namer.functions_at(location).map(|function| {
            let (name, file) = (function.name, function.file);
            frames.insert_full(SpeedscopeFrame { name, file }).0
        }));
    });
    let rows: Vec<SampleRow<(NameId, Option<usize>)>> = add_up(
        samples_of(recording, options.event)
            .map(|sample| {
                SampleRow::new((sample.process, paths.node_of_stack(sample.stack)), sample)
            })
            .collect(),
    );
    let (mut ends, mut weights) = (Vec::new(), Vec::new());
    for row in heaviest_first(&rows, &paths) {
        let value = event.map_or(0, |event| row.event_value(event));
        if value > 0 {
            let (process, node) = row.key;
            let frame = SpeedscopeFrame {
                name: Cow::Borrowed(process_name(recording.names.get(process))),
                file: None,
            };
            ends.push((frames.insert_full(frame).0, node));
            weights.push(value);
        }
    }
    let event_name = event.map_or("no event", |event| &event.name);
    let name = &format!("{event_name} (no time axis: the heaviest first)");
    let unit = match event.map(|event| event.unit) {
        Some(Unit::Nanoseconds) => "nanoseconds",
        Some(Unit::Samples) | None => "none",
    };
    let paths = &paths;
    let profile = SpeedscopeProfile {
        r#type: "sampled",
        name,
        unit,
        start_value: 0,
        end_value: weights.iter().fold(0, |sum, w| sum.saturating_add(*w)),
        samples: SpeedscopeSamples { ends, paths },
        weights,
    };
    let file = SpeedscopeFile {
        schema: SCHEMA,
        name,
        exporter: concat!("vitalfew ", env!("CARGO_PKG_VERSION")),
        active_profile_index: 0,
        shared: SpeedscopeShared { frames: &frames },
        profiles: [profile],
    };
    let mut out = BufWriter::new(out);
    serde_json::to_writer(&mut out, &file)
        .map_err(Into::into)
        .and_then(|()| out.flush())
        .map_err(WriteError::wrap_io("speedscope"))
}
