//! Gecko profiles: what Firefox hands out before the Firefox Profiler works on it.
//!
//! A table is an array of rows, and its schema says which element of a row is what.

use super::Document;
use super::firefox::{FrameColumns, StackColumns, Thread};
use super::rows::{Row, Rows, Schema};
use super::value::{Column, Scalar, Text, value_type};
use crate::frame::base_of_path;
use crate::read::draft::Draft;
use crate::read::error::{Fault, Place};
use crate::read::options::ReadOptions;
use crate::read::stacks::{Link, StackNodes, StackTable};
use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use std::fmt;

/// A column of a table.
#[derive(Clone, Copy)]
struct Cells<'d> {
    rows: &'d [Row],
    column: Option<usize>,
}

impl<'d> Cells<'d> {
    fn new(schema: &Schema, rows: &'d Rows, name: &str) -> Self {
        Self {
            rows: &rows.0,
            column: schema.get(name).copied(),
        }
    }

    fn at(self, row: usize) -> Option<f64> {
        let value = *self.rows.get(row)?.0.get(self.column?)?;
        (!value.is_nan()).then_some(value)
    }

    fn index(self, row: usize) -> Option<u32> {
        let value = self.at(row)?;
        // A cast saturates, and no table is that long.
        (value >= 0.0).then_some(value as u32)
    }
}

/// A library, and where it was in memory.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Lib {
    start: f64,
    end: f64,
    offset: f64,
    name: Scalar,
    path: Scalar,
}

/// The libraries: an array, or in old versions the text of one.
#[derive(Default)]
pub(super) struct Libs(Vec<Lib>);

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
                Column::deserialize(seq).map(|Column(libs)| Libs(libs))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Libs, E> {
                let Column(libs) = serde_json::from_str(text).map_err(E::custom)?;
                Ok(Libs(libs))
            }
            fn visit_unit<E: Error>(self) -> Result<Libs, E> {
                Ok(Libs::default())
            }
        }
        deserializer.deserialize_any(Any)
    }
}

pub(super) fn read(document: Document, options: &ReadOptions, used: u64) -> Result<Draft, Fault> {
    let mut draft = Draft::new(vec![value_type("samples", "samples")], options);
    draft.hold(used, Place::Offset(0))?;
    // Processes have processes of their own, at most.
    let mut pending = vec![document];
    let mut unsymbolised = false;
    while let Some(document) = pending.pop() {
        let libs = document.libs.0;
        for (index, thread) in document.threads.unwrap_or_default().0.iter().enumerate() {
            let at = Place::Row {
                table: "thread",
                row: index as u64,
            };
            unsymbolised |= read_thread(thread, &libs, &mut draft, options, at)?;
        }
        pending.extend(document.processes.0.into_iter().map(|process| process.0));
    }
    if unsymbolised {
        draft.note("the profile was saved without symbols: functions are named by their address; open it in the Firefox Profiler, and save it from there");
    }
    Ok(draft)
}

fn read_thread(
    thread: &Thread,
    libs: &[Lib],
    draft: &mut Draft,
    options: &ReadOptions,
    at: Place,
) -> Result<bool, Fault> {
    let root = draft.group(&thread.owner(), at)?;
    let samples = Cells::new(&thread.samples.schema, &thread.samples.data, "stack");
    let empty = (
        StackColumns::default(),
        FrameColumns::default(),
        Column::default(),
    );
    let stacks = thread.stack_table.as_ref().unwrap_or(&empty.0);
    let frames = thread.frame_table.as_ref().unwrap_or(&empty.1);
    let mut table = Table {
        prefix: Cells::new(&stacks.schema, &stacks.data, "prefix"),
        frame: Cells::new(&stacks.schema, &stacks.data, "frame"),
        location: Cells::new(&frames.schema, &frames.data, "location"),
        line: Cells::new(&frames.schema, &frames.data, "line"),
        strings: thread.string_table.as_ref().unwrap_or(&empty.2),
        libs,
        lines: options.lines,
        unsymbolised: false,
    };
    let mut nodes = StackNodes::default();
    for row in 0..samples.rows.len() {
        let node = nodes.node(draft, &mut table, root, samples.index(row))?;
        draft.add(0, node, 1);
    }
    Ok(table.unsymbolised)
}

struct Table<'d> {
    prefix: Cells<'d>,
    frame: Cells<'d>,
    location: Cells<'d>,
    line: Cells<'d>,
    strings: &'d Column<Text>,
    libs: &'d [Lib],
    lines: bool,
    unsymbolised: bool,
}

impl StackTable for Table<'_> {
    fn stack(&mut self, stack: u32, draft: &mut Draft) -> Result<Option<Link>, Fault> {
        let row = stack as usize;
        let Some(frame) = self.frame.index(row).map(|frame| frame as usize) else {
            return Ok(None);
        };
        let location = self.location.index(frame);
        let Some(Text(name)) = location.and_then(|l| self.strings.0.get(l as usize)) else {
            let at = Place::Row {
                table: "frame",
                row: frame as u64,
            };
            return Err(Fault::damaged(
                "it refers to something that is not there",
                at,
            ));
        };
        let line = self.line.index(frame).filter(|_| self.lines);
        let (name, module) = match (address(name), line) {
            (Some(address), _) => {
                self.unsymbolised = true;
                self.place(address)
            }
            (None, Some(line)) => (format!("{name}:{line}"), ""),
            (None, None) => (name.clone(), ""),
        };
        let method = draft.method(&name, module)?;
        Ok(Some((self.prefix.index(row), Some(method))))
    }
}

impl<'d> Table<'d> {
    fn place(&self, address: u64) -> (String, &'d str) {
        let at = address as f64;
        let lib = self
            .libs
            .iter()
            .find(|lib| (lib.start..lib.end).contains(&at));
        let name = lib.and_then(|lib| lib.name.text().or(lib.path.text()));
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

fn address(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_prefix("0x")?, 16).ok()
}
