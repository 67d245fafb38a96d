//! Gecko profiles: the form in which Firefox hands profiles out, before the Firefox Profiler works
//! on them.
//!
//! A table is an array of rows, and its schema says which element of a row is what.

use super::firefox::{FrameColumns, StackColumns, ThreadGroup, ThreadTables};
use super::rows::{JsonRow, Rows, Schema};
use super::value::{JsonColumn, JsonText, Scalar, value_type};
use crate::frame::base_of_path;
use crate::read::draft::TreeDraft;
use crate::read::error::{FilePosition, ReadFault};
use crate::read::options::ReadOptions;
use crate::read::stacks::{Link, LinkedStacks, StackNodes};
use crate::read::time_axis::TimeRange;
use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use std::fmt;

/// A column of a table.
#[derive(Clone, Copy)]
struct GeckoCells<'d> {
    rows: &'d [JsonRow],
    column: Option<usize>,
}

impl<'d> GeckoCells<'d> {
    fn new(schema: &Schema, rows: &'d Rows, name: &str) -> Self {
        Self {
            rows: &rows.0,
            column: schema.get(name).copied(),
        }
    }

    fn number_at(self, row: usize) -> Option<f64> {
        let value = *self.rows.get(row)?.0.get(self.column?)?;
        (!value.is_nan()).then_some(value)
    }

    fn index_at(self, row: usize) -> Option<u32> {
        let value = self.number_at(row)?;
        // A cast saturates, and no table is that long.
        (value >= 0.0).then_some(value as u32)
    }
}

/// A library, and where it was in memory.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct GeckoLib {
    start: f64,
    end: f64,
    offset: f64,
    name: Scalar,
    path: Scalar,
}

/// The libraries: an array, or in old versions the text of one.
#[derive(Default)]
pub(super) struct Libs(Vec<GeckoLib>);

impl<'de> Deserialize<'de> for Libs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Libs;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("libraries")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Libs, A::Error> {
                let seq = serde::de::value::SeqAccessDeserializer::new(seq);
                JsonColumn::deserialize(seq).map(|JsonColumn(libs)| Libs(libs))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Libs, E> {
                let JsonColumn(libs) = serde_json::from_str(text).map_err(E::custom)?;
                Ok(Libs(libs))
            }
            fn visit_unit<E: Error>(self) -> Result<Libs, E> {
                Ok(Libs::default())
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// The profile of one process.
pub(super) struct ProcessProfile {
    pub libs: Libs,
    pub threads: Vec<ThreadTables>,
    /// Start of its times, in milliseconds since 1970.
    pub start_ms: f64,
}

impl ProcessProfile {
    /// A time of this process on the axis of all; no number where there is none.
    fn time_ns(&self, ms: Option<f64>) -> f64 {
        ms.map_or(f64::NAN, |ms| (self.start_ms + ms) * 1e6)
    }
}

pub(super) fn read_gecko(
    processes: &[ProcessProfile],
    options: &ReadOptions,
    used: u64,
) -> Result<TreeDraft, ReadFault> {
    let mut draft = TreeDraft::new(vec![value_type("samples", "samples")], options);
    draft.charge_memory(used, FilePosition::Offset(0))?;
    let mut range = TimeRange::default();
    for process in processes.iter().filter(|_| draft.wants_times()) {
        for thread in &process.threads {
            let times = GeckoCells::new(&thread.samples.schema, &thread.samples.data, "time");
            for row in 0..times.rows.len() {
                range.add_time(process.time_ns(times.number_at(row)));
            }
        }
    }
    draft.set_time_axis(range.slices_of_samples());
    let mut unsymbolised = false;
    for process in processes {
        for (index, thread) in process.threads.iter().enumerate() {
            let at = FilePosition::Row {
                table: "thread",
                row: index as u64,
            };
            unsymbolised |= read_thread(thread, process, &mut draft, options, at)?;
        }
    }
    if unsymbolised {
        draft.add_note("the profile was saved without symbols: functions are named by their address; open it in the Firefox Profiler, and save it from there");
    }
    Ok(draft)
}

fn read_thread(
    thread: &ThreadTables,
    process: &ProcessProfile,
    draft: &mut TreeDraft,
    options: &ReadOptions,
    at: FilePosition,
) -> Result<bool, ReadFault> {
    let mut group = ThreadGroup::new(thread, draft);
    let times = GeckoCells::new(&thread.samples.schema, &thread.samples.data, "time");
    let samples = GeckoCells::new(&thread.samples.schema, &thread.samples.data, "stack");
    let empty = (
        StackColumns::default(),
        FrameColumns::default(),
        JsonColumn::default(),
    );
    let stacks = thread.stack_table.as_ref().unwrap_or(&empty.0);
    let frames = thread.frame_table.as_ref().unwrap_or(&empty.1);
    let mut table = GeckoTable {
        prefix: GeckoCells::new(&stacks.schema, &stacks.data, "prefix"),
        frame: GeckoCells::new(&stacks.schema, &stacks.data, "frame"),
        location: GeckoCells::new(&frames.schema, &frames.data, "location"),
        line: GeckoCells::new(&frames.schema, &frames.data, "line"),
        strings: thread.string_table.as_ref().unwrap_or(&empty.2),
        libs: &process.libs.0,
        lines: options.lines,
        unsymbolised: false,
    };
    let mut nodes = StackNodes::default();
    for row in 0..samples.rows.len() {
        let root = group.node_at(process.time_ns(times.number_at(row)), draft, at)?;
        let node = nodes.node_of_stack(draft, &mut table, root, samples.index_at(row))?;
        draft.add_cost(0, node, 1);
    }
    Ok(table.unsymbolised)
}

struct GeckoTable<'d> {
    prefix: GeckoCells<'d>,
    frame: GeckoCells<'d>,
    location: GeckoCells<'d>,
    line: GeckoCells<'d>,
    strings: &'d JsonColumn<JsonText>,
    libs: &'d [GeckoLib],
    lines: bool,
    unsymbolised: bool,
}

impl LinkedStacks for GeckoTable<'_> {
    fn stack_link(&mut self, stack: u32, draft: &mut TreeDraft) -> Result<Option<Link>, ReadFault> {
        let row = stack as usize;
        let Some(frame) = self.frame.index_at(row).map(|frame| frame as usize) else {
            return Ok(None);
        };
        let location = self.location.index_at(frame);
        let Some(JsonText(name)) = location.and_then(|l| self.strings.0.get(l as usize)) else {
            let at = FilePosition::Row {
                table: "frame",
                row: frame as u64,
            };
            return Err(ReadFault::damaged(
                "it refers to something that is not there",
                at,
            ));
        };
        let line = self.line.index_at(frame).filter(|_| self.lines);
        let (name, module) = match (parse_address(name), line) {
            (Some(address), _) => {
                self.unsymbolised = true;
                self.name_address(address)
            }
            (None, Some(line)) => (format!("{name}:{line}"), ""),
            (None, None) => (name.clone(), ""),
        };
        let method = draft.intern_method(&name, module)?;
        Ok(Some((self.prefix.index_at(row), Some(method))))
    }
}

impl<'d> GeckoTable<'d> {
    fn name_address(&self, address: u64) -> (String, &'d str) {
        let at = address as f64;
        let lib = self
            .libs
            .iter()
            .find(|lib| (lib.start..lib.end).contains(&at));
        let name = lib.and_then(|lib| lib.name.as_text().or(lib.path.as_text()));
        match (lib, name) {
            (Some(lib), Some(name)) => {
                let offset = at - lib.start + lib.offset;
                let module = base_of_path(name);
                (format!("{module}+{:#x}", offset as u64), module)
            }
            _ => (format!("{address:#x}"), ""),
        }
    }
}

fn parse_address(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_prefix("0x")?, 16).ok()
}
