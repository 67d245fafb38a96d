//! The Firefox Profiler's processed profile format.
//!
//! Stacks are a table of callers already. Until 2025 each thread had tables of its own; since then
//! threads share them.

use super::Document;
use super::rows::{Rows, Schema};
use super::speedscope::Frame;
use super::value::{Column, Scalar, Text, value_type};
use crate::read::draft::{Draft, Owner};
use crate::read::error::{Fault, Place};
use crate::read::options::ReadOptions;
use crate::read::stacks::{Link, StackNodes, StackTable};
use profile::{MethodId, ValueType};
use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Meta {
    preprocessed_profile_version: Option<f64>,
    symbolicated: Option<bool>,
    sample_units: Option<SampleUnits>,
}

#[derive(Default, Deserialize)]
struct SampleUnits {
    #[serde(rename = "threadCPUDelta", default)]
    cpu: Scalar,
}

impl Meta {
    pub fn is_processed(&self) -> bool {
        self.preprocessed_profile_version.is_some()
    }

    /// Name and unit of what `threadCPUDelta` counts, and its factor.
    fn cpu(&self) -> (ValueType, f64) {
        let unit = self
            .sample_units
            .as_ref()
            .and_then(|units| units.cpu.text());
        let (unit, factor) = match unit {
            Some("ns") | None => ("nanoseconds", 1.0),
            Some("variable CPU cycles") => ("cycles", 1.0),
            Some(_) => ("nanoseconds", 1000.0),
        };
        (value_type("cpu", unit), factor)
    }
}

/// A thread; also the tables that threads share.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Thread {
    pub name: Scalar,
    pub process_name: Scalar,
    pub pid: Scalar,
    pub tid: Scalar,
    pub samples: Samples,
    native_allocations: Option<Samples>,
    js_allocations: Option<Samples>,
    pub stack_table: Option<StackColumns>,
    pub frame_table: Option<FrameColumns>,
    func_table: Option<FuncColumns>,
    resource_table: Option<ResourceColumns>,
    string_array: Option<Column<Text>>,
    /// Gecko's.
    pub string_table: Option<Column<Text>>,
    /// speedscope's.
    pub frames: Column<Frame>,
}

impl Thread {
    /// Returns whether its functions are a table, which Gecko does not write.
    pub fn is_processed(&self) -> bool {
        self.func_table.is_some()
    }

    pub fn owner(&self) -> Owner<'_> {
        Owner {
            host: None,
            process: self.process_name.text(),
            pid: self.pid.integer(),
            thread: self.name.text(),
            tid: self.tid.integer(),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Samples {
    stack: Column<Option<u32>>,
    weight: Option<Column<Option<f64>>>,
    weight_type: Option<Text>,
    #[serde(rename = "threadCPUDelta")]
    cpu_delta: Option<Column<Option<f64>>>,
    pub schema: Schema,
    pub data: Rows,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct StackColumns {
    prefix: Column<Option<u32>>,
    /// Since version 61, in place of the caller: how far before it stands; 0 of a stack without.
    #[serde(rename = "prefixOffset")]
    prefix_offset: Column<u32>,
    frame: Column<u32>,
    pub schema: Schema,
    pub data: Rows,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct FrameColumns {
    func: Column<u32>,
    line: Column<Option<u32>>,
    inline_depth: Column<Option<u32>>,
    pub schema: Schema,
    pub data: Rows,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FuncColumns {
    name: Column<u32>,
    resource: Column<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResourceColumns {
    name: Column<Option<u32>>,
}

impl StackColumns {
    /// The caller of a stack, if it has one.
    fn caller(&self, index: usize) -> Option<Option<u32>> {
        if let Some(caller) = self.prefix.at(index) {
            return Some(caller);
        }
        let offset = self.prefix_offset.at(index)?;
        let caller = u32::try_from(index).ok()?.checked_sub(offset)?;
        Some((offset > 0).then_some(caller))
    }
}

/// Name, unit and factor of weights.
fn weight_type(name: Option<&Text>) -> (ValueType, f64) {
    match name.map(|Text(name)| name.as_str()) {
        Some("tracing-ms") => (value_type("time", "nanoseconds"), 1e6),
        Some("bytes") => (value_type("bytes", "bytes"), 1.0),
        _ => (value_type("samples", "samples"), 1.0),
    }
}

/// What a value type is read from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Samples,
    Cpu,
    NativeAllocations,
    JsAllocations,
}

pub(super) fn read(document: Document, options: &ReadOptions, used: u64) -> Result<Draft, Fault> {
    let meta = document.meta.unwrap_or_default();
    let threads = document.threads.unwrap_or_default().0;
    let shared = document.shared.unwrap_or_default();
    let mut values: Vec<(Source, ValueType, f64)> = Vec::new();
    for thread in &threads {
        for (source, (value_type, factor)) in sources(thread, &meta) {
            if !values
                .iter()
                .any(|(s, v, _)| *s == source && *v == value_type)
            {
                values.push((source, value_type, factor));
            }
        }
    }
    // What was sampled comes first, whatever thread begins.
    values.sort_by_key(|(source, _, _)| *source as u8);
    let types = values.iter().map(|(_, value_type, _)| value_type.clone());
    let mut draft = Draft::new(types.collect(), options);
    draft.hold(used, Place::Offset(0))?;
    if meta.symbolicated == Some(false) {
        draft.note("the profile was saved without symbols: functions are named by their address; open it in the Firefox Profiler or with `samply load`, and save it from there");
    }
    let mut nodes = StackNodes::default();
    for (index, thread) in threads.iter().enumerate() {
        let at = Place::Row {
            table: "thread",
            row: index as u64,
        };
        let mut table = Tables::new(thread, &shared, options);
        if thread.stack_table.is_some() {
            nodes.clear();
        }
        let root = draft.group(&thread.owner(), at)?;
        for (source, (value_type, factor)) in sources(thread, &meta) {
            let wanted = |(s, v, _): &(Source, ValueType, f64)| *s == source && *v == value_type;
            let Some(value) = values.iter().position(wanted) else {
                continue;
            };
            let Some(samples) = samples_of(thread, source) else {
                continue;
            };
            for (row, stack) in samples.stack.0.iter().enumerate() {
                let weight = match source {
                    Source::Cpu => samples.cpu_delta.as_ref().map(|c| c.at(row)),
                    _ => samples.weight.as_ref().map(|c| c.at(row)),
                };
                let weight = match weight {
                    None => 1.0,
                    Some(Some(weight)) => weight.unwrap_or(0.0),
                    Some(None) => {
                        return Err(Fault::damaged("fewer weights than samples", at));
                    }
                };
                let node = nodes.node(&mut draft, &mut table, root, *stack)?;
                // A cast saturates; sums that overflow are found later.
                draft.add(value, node, (weight * factor).round() as i64);
            }
        }
    }
    Ok(draft)
}

fn samples_of(thread: &Thread, source: Source) -> Option<&Samples> {
    match source {
        Source::Samples | Source::Cpu => Some(&thread.samples),
        Source::NativeAllocations => thread.native_allocations.as_ref(),
        Source::JsAllocations => thread.js_allocations.as_ref(),
    }
}

/// The value types of a thread, and the factor from the file's numbers to ours.
fn sources(thread: &Thread, meta: &Meta) -> Vec<(Source, (ValueType, f64))> {
    let mut all = Vec::new();
    let samples = &thread.samples;
    if !samples.stack.0.is_empty() {
        all.push((Source::Samples, weight_type(samples.weight_type.as_ref())));
        let cpu = samples.cpu_delta.as_ref();
        if cpu.is_some_and(|c| c.0.iter().any(|delta| delta.is_some_and(|d| d != 0.0))) {
            all.push((Source::Cpu, meta.cpu()));
        }
    }
    if thread.native_allocations.is_some() {
        let value_type = value_type("native allocations", "bytes");
        all.push((Source::NativeAllocations, (value_type, 1.0)));
    }
    if thread.js_allocations.is_some() {
        let value_type = value_type("JS allocations", "bytes");
        all.push((Source::JsAllocations, (value_type, 1.0)));
    }
    all
}

/// The tables of a thread, its own or shared.
struct Tables<'d> {
    stacks: Option<&'d StackColumns>,
    frames: Option<&'d FrameColumns>,
    funcs: Option<&'d FuncColumns>,
    resources: Option<&'d ResourceColumns>,
    strings: Option<&'d Column<Text>>,
    /// By frame, once it was asked for.
    methods: Vec<Option<Option<MethodId>>>,
    lines: bool,
    inline: bool,
}

impl<'d> Tables<'d> {
    fn new(thread: &'d Thread, shared: &'d Thread, options: &ReadOptions) -> Self {
        let strings = |t: &'d Thread| t.string_array.as_ref().or(t.string_table.as_ref());
        Self {
            stacks: thread.stack_table.as_ref().or(shared.stack_table.as_ref()),
            frames: thread.frame_table.as_ref().or(shared.frame_table.as_ref()),
            funcs: thread.func_table.as_ref().or(shared.func_table.as_ref()),
            resources: thread
                .resource_table
                .as_ref()
                .or(shared.resource_table.as_ref()),
            strings: strings(thread).or_else(|| strings(shared)),
            methods: Vec::new(),
            lines: options.lines,
            inline: options.inline,
        }
    }

    fn text(&self, index: Option<u32>) -> Option<&'d str> {
        let Text(text) = self.strings?.0.get(index? as usize)?;
        Some(text)
    }

    fn method(&self, frame: u32, draft: &mut Draft) -> Result<Option<MethodId>, Fault> {
        let at = Place::Row {
            table: "frame",
            row: frame.into(),
        };
        let missing = || Fault::damaged("it refers to something that is not there", at);
        let frames = self.frames.ok_or_else(missing)?;
        let index = frame as usize;
        let func = frames.func.at(index).ok_or_else(missing)? as usize;
        if !self.inline
            && frames
                .inline_depth
                .at(index)
                .flatten()
                .is_some_and(|d| d > 0)
        {
            return Ok(None);
        }
        let funcs = self.funcs.ok_or_else(missing)?;
        let name = self.text(funcs.name.at(func)).ok_or_else(missing)?;
        let resource = funcs
            .resource
            .at(func)
            .and_then(|r| usize::try_from(r).ok());
        let module = resource.and_then(|r| self.resources?.name.at(r).flatten());
        let module = self.text(module).unwrap_or_default();
        let line = frames.line.at(index).flatten().filter(|_| self.lines);
        let name = match (line, name) {
            (Some(line), name) => format!("{name}:{line}"),
            (None, address) if address.starts_with("0x") && !module.is_empty() => {
                format!("{module}+{address}")
            }
            (None, name) => name.to_owned(),
        };
        draft.method(&name, module).map(Some)
    }
}

impl StackTable for Tables<'_> {
    fn stack(&mut self, stack: u32, draft: &mut Draft) -> Result<Option<Link>, Fault> {
        let index = stack as usize;
        let columns = self
            .stacks
            .and_then(|s| s.frame.at(index).zip(s.caller(index)));
        let Some((frame, caller)) = columns else {
            return Ok(None);
        };
        if let Some(Some(method)) = self.methods.get(frame as usize) {
            return Ok(Some((caller, *method)));
        }
        let method = self.method(frame, draft)?;
        // The frame is there, so the table is as long as the file made it.
        if self.methods.len() <= frame as usize {
            self.methods.resize(frame as usize + 1, None);
        }
        if let Some(entry) = self.methods.get_mut(frame as usize) {
            *entry = Some(method);
        }
        Ok(Some((caller, method)))
    }
}
