//! The Firefox Profiler's processed profile format.
//!
//! Stacks form a table of callers. Until 2025 each thread had tables of its own; since then threads
//! share them.

use super::speedscope::JsonFrame;
use super::value::{JsonColumn, JsonText, Scalar, value_type};
use crate::read::draft::{Owner, TreeDraft};
use crate::read::error::{FilePosition, ReadFault};
use crate::read::options::ReadOptions;
use crate::read::stacks::{Link, LinkedStacks, StackNodes};
use crate::read::time_axis::{TimeRange, TimeSlices};
use profile::{DraftNode, MethodId, ValueType};
use rustc_hash::FxHashMap;
use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ProfileMeta {
    preprocessed_profile_version: Option<f64>,
    symbolicated: Option<bool>,
    /// Start, in milliseconds since 1970.
    sample_units: Option<DeltaUnits>,
}

#[derive(Default, Deserialize)]
struct DeltaUnits {
    #[serde(rename = "threadCPUDelta", default)]
    cpu: Scalar,
}

impl ProfileMeta {
    pub fn is_processed(&self) -> bool {
        self.preprocessed_profile_version.is_some()
    }

    /// Returns the name and unit of the counts in `threadCPUDelta`, and the conversion factor.
    fn cpu_delta_unit(&self) -> (ValueType, f64) {
        let unit = self
            .sample_units
            .as_ref()
            .and_then(|units| units.cpu.as_text());
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
pub(super) struct ThreadTables {
    pub name: Scalar,
    pub process_name: Scalar,
    pub pid: Scalar,
    pub tid: Scalar,
    pub samples: SampleColumns,
    native_allocations: Option<SampleColumns>,
    js_allocations: Option<SampleColumns>,
    pub stack_table: Option<StackColumns>,
    pub frame_table: Option<FrameColumns>,
    func_table: Option<FuncColumns>,
    resource_table: Option<ResourceColumns>,
    string_array: Option<JsonColumn<JsonText>>,
    /// Frames of speedscope.
    pub frames: JsonColumn<JsonFrame>,
}

impl ThreadTables {
    /// Returns whether functions are a table, which Gecko does not write.
    pub fn is_processed(&self) -> bool {
        self.func_table.is_some()
    }

    pub fn thread_owner(&self) -> Owner<'_> {
        Owner {
            host: None,
            process: self.process_name.as_text(),
            pid: self.pid.as_integer(),
            thread: self.name.as_text(),
            tid: self.tid.as_integer(),
            slice: None,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SampleColumns {
    stack: JsonColumn<Option<u32>>,
    /// Milliseconds; since version 52 differences of them.
    time: Option<JsonColumn<Option<f64>>>,
    time_deltas: Option<JsonColumn<Option<f64>>>,
    weight: Option<JsonColumn<Option<f64>>>,
    weight_type: Option<JsonText>,
    #[serde(rename = "threadCPUDelta")]
    cpu_delta: Option<JsonColumn<Option<f64>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct StackColumns {
    prefix: JsonColumn<Option<u32>>,
    /// Replaces the caller since version 61: its distance before this stack, in rows; 0 if there is
    /// no caller.
    #[serde(rename = "prefixOffset")]
    prefix_offset: JsonColumn<u32>,
    frame: JsonColumn<u32>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct FrameColumns {
    func: JsonColumn<u32>,
    line: JsonColumn<Option<u32>>,
    inline_depth: JsonColumn<Option<u32>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FuncColumns {
    name: JsonColumn<u32>,
    resource: JsonColumn<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResourceColumns {
    name: JsonColumn<Option<u32>>,
}

impl StackColumns {
    /// Returns the caller of a stack, if it has one.
    fn caller_of(&self, index: usize) -> Option<Option<u32>> {
        if let Some(caller) = self.prefix.value_at(index) {
            return Some(caller);
        }
        let offset = self.prefix_offset.value_at(index)?;
        let caller = u32::try_from(index).ok()?.checked_sub(offset)?;
        Some((offset > 0).then_some(caller))
    }
}

impl SampleColumns {
    /// Returns the times of its samples in nanoseconds, if they are present.
    fn times_ns(&self) -> Vec<f64> {
        if let Some(times) = &self.time {
            let known = times.0.iter().map(|ms| ms.unwrap_or(f64::NAN));
            return known.map(|ms| ms * 1e6).collect();
        }
        let mut now = 0.0;
        let deltas = self.time_deltas.iter().flat_map(|deltas| &deltas.0);
        let sum = |delta: &Option<f64>| {
            now += delta.unwrap_or(0.0) * 1e6;
            now
        };
        deltas.map(sum).collect()
    }
}

/// Returns the name, unit and factor of weights.
fn weight_type(name: Option<&JsonText>) -> (ValueType, f64) {
    match name.map(|JsonText(name)| name.as_str()) {
        Some("tracing-ms") => (value_type("time", "nanoseconds"), 1e6),
        Some("bytes") => (value_type("bytes", "bytes"), 1.0),
        _ => (value_type("samples", "samples"), 1.0),
    }
}

/// The column with the values of a value type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueSource {
    Samples,
    Cpu,
    NativeAllocations,
    JsAllocations,
}

/// Parts of a processed profile, taken from its document.
pub(super) struct ProcessedProfile {
    pub meta: ProfileMeta,
    pub threads: Vec<ThreadTables>,
    /// The tables shared by all threads.
    pub shared: ThreadTables,
}

pub(super) fn read_firefox(
    profile: ProcessedProfile,
    options: &ReadOptions,
    used: u64,
) -> Result<TreeDraft, ReadFault> {
    let ProcessedProfile {
        meta,
        threads,
        shared,
    } = profile;
    let mut values: Vec<(ValueSource, ValueType, f64)> = Vec::new();
    for thread in &threads {
        for (source, (value_type, factor)) in value_sources(thread, &meta) {
            if !values
                .iter()
                .any(|(s, v, _)| *s == source && *v == value_type)
            {
                values.push((source, value_type, factor));
            }
        }
    }
    // The type of samples comes first, whichever thread begins.
    values.sort_by_key(|(source, _, _)| *source as u8);
    let types = values.iter().map(|(_, value_type, _)| value_type.clone());
    let mut draft = TreeDraft::new(types.collect(), options);
    draft.charge_memory(used, FilePosition::Offset(0))?;
    if meta.symbolicated == Some(false) {
        draft.add_note("the profile was saved without symbols: functions are named by their address; open it in the Firefox Profiler or with `samply load`, and save it from there");
    }
    if draft.wants_times() {
        let mut range = TimeRange::default();
        let samples = threads.iter().map(|thread| &thread.samples);
        samples.for_each(|samples| {
            samples
                .times_ns()
                .into_iter()
                .for_each(|ns| range.add_time(ns))
        });
        draft.set_time_axis(range.slices_of_samples());
    }
    let mut nodes = StackNodes::default();
    for (index, thread) in threads.iter().enumerate() {
        let at = FilePosition::Row {
            table: "thread",
            row: index as u64,
        };
        let mut table = ProfileTables::new(thread, &shared, options);
        if thread.stack_table.is_some() {
            nodes.forget_table();
        }
        let mut group = ThreadGroup::new(thread, &draft);
        for (source, (value_type, factor)) in value_sources(thread, &meta) {
            let wanted =
                |(s, v, _): &(ValueSource, ValueType, f64)| *s == source && *v == value_type;
            let Some(value) = values.iter().position(wanted) else {
                continue;
            };
            let Some(samples) = samples_of(thread, source) else {
                continue;
            };
            let times = group.times_of(samples);
            for (row, stack) in samples.stack.0.iter().enumerate() {
                let weight = match source {
                    ValueSource::Cpu => samples.cpu_delta.as_ref().map(|c| c.value_at(row)),
                    _ => samples.weight.as_ref().map(|c| c.value_at(row)),
                };
                let weight = match weight {
                    None => 1.0,
                    Some(Some(weight)) => weight.unwrap_or(0.0),
                    Some(None) => {
                        return Err(ReadFault::damaged("fewer weights than samples", at));
                    }
                };
                let root =
                    group.node_at(times.get(row).copied().unwrap_or(f64::NAN), &mut draft, at)?;
                let node = nodes.node_of_stack(&mut draft, &mut table, root, *stack)?;
                // A cast saturates; overflowing sums are found later.
                draft.add_cost(value, node, (weight * factor).round() as i64);
            }
        }
    }
    Ok(draft)
}

/// The nodes under which a thread's stacks begin: one for each slice of time, if times are kept.
pub(super) struct ThreadGroup<'d> {
    owner: Owner<'d>,
    axis: Option<TimeSlices>,
    known: FxHashMap<Option<u32>, DraftNode>,
}

impl<'d> ThreadGroup<'d> {
    pub fn new(thread: &'d ThreadTables, draft: &TreeDraft) -> Self {
        Self {
            owner: thread.thread_owner(),
            axis: draft.time_axis(),
            known: FxHashMap::default(),
        }
    }

    /// Returns the times of samples, if they are kept.
    fn times_of(&self, samples: &SampleColumns) -> Vec<f64> {
        self.axis.map_or_else(Vec::new, |_| samples.times_ns())
    }

    /// Returns the node of a time in nanoseconds; samples without a time are in the first slice.
    pub fn node_at(
        &mut self,
        ns: f64,
        draft: &mut TreeDraft,
        at: FilePosition,
    ) -> Result<DraftNode, ReadFault> {
        let slice = self.axis.map(|axis| axis.slice_at(ns));
        if let Some(node) = self.known.get(&slice) {
            return Ok(*node);
        }
        let owner = Owner {
            slice,
            ..self.owner
        };
        let node = draft.group_node(&owner, at)?;
        self.known.insert(slice, node);
        Ok(node)
    }
}

fn samples_of(thread: &ThreadTables, source: ValueSource) -> Option<&SampleColumns> {
    match source {
        ValueSource::Samples | ValueSource::Cpu => Some(&thread.samples),
        ValueSource::NativeAllocations => thread.native_allocations.as_ref(),
        ValueSource::JsAllocations => thread.js_allocations.as_ref(),
    }
}

/// Returns the value types of a thread, and the conversion factor of the file's numbers.
fn value_sources(
    thread: &ThreadTables,
    meta: &ProfileMeta,
) -> Vec<(ValueSource, (ValueType, f64))> {
    let mut all = Vec::new();
    let samples = &thread.samples;
    if !samples.stack.0.is_empty() {
        all.push((
            ValueSource::Samples,
            weight_type(samples.weight_type.as_ref()),
        ));
        let cpu = samples.cpu_delta.as_ref();
        if cpu.is_some_and(|c| c.0.iter().any(|delta| delta.is_some_and(|d| d != 0.0))) {
            all.push((ValueSource::Cpu, meta.cpu_delta_unit()));
        }
    }
    if thread.native_allocations.is_some() {
        let value_type = value_type("native allocations", "bytes");
        all.push((ValueSource::NativeAllocations, (value_type, 1.0)));
    }
    if thread.js_allocations.is_some() {
        let value_type = value_type("JS allocations", "bytes");
        all.push((ValueSource::JsAllocations, (value_type, 1.0)));
    }
    all
}

/// The tables of a thread, its own or shared.
struct ProfileTables<'d> {
    stacks: Option<&'d StackColumns>,
    frames: Option<&'d FrameColumns>,
    funcs: Option<&'d FuncColumns>,
    resources: Option<&'d ResourceColumns>,
    strings: Option<&'d JsonColumn<JsonText>>,
    /// Methods by frame, cached.
    methods: Vec<Option<Option<MethodId>>>,
    lines: bool,
    inline: bool,
}

impl<'d> ProfileTables<'d> {
    fn new(thread: &'d ThreadTables, shared: &'d ThreadTables, options: &ReadOptions) -> Self {
        let strings = |t: &'d ThreadTables| t.string_array.as_ref();
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

    fn text_at(&self, index: Option<u32>) -> Option<&'d str> {
        let JsonText(text) = self.strings?.0.get(index? as usize)?;
        Some(text)
    }

    fn frame_method(
        &self,
        frame: u32,
        draft: &mut TreeDraft,
    ) -> Result<Option<MethodId>, ReadFault> {
        let at = FilePosition::Row {
            table: "frame",
            row: frame.into(),
        };
        let missing = || ReadFault::damaged("it refers to something that is not there", at);
        let frames = self.frames.ok_or_else(missing)?;
        let index = frame as usize;
        let func = frames.func.value_at(index).ok_or_else(missing)? as usize;
        if !self.inline
            && frames
                .inline_depth
                .value_at(index)
                .flatten()
                .is_some_and(|d| d > 0)
        {
            return Ok(None);
        }
        let funcs = self.funcs.ok_or_else(missing)?;
        let name = self
            .text_at(funcs.name.value_at(func))
            .ok_or_else(missing)?;
        let resource = funcs
            .resource
            .value_at(func)
            .and_then(|r| usize::try_from(r).ok());
        let module = resource.and_then(|r| self.resources?.name.value_at(r).flatten());
        let module = self.text_at(module).unwrap_or_default();
        let line = frames.line.value_at(index).flatten().filter(|_| self.lines);
        let name = match (line, name) {
            (Some(line), name) => format!("{name}:{line}"),
            (None, address) if address.starts_with("0x") && !module.is_empty() => {
                format!("{module}+{address}")
            }
            (None, name) => name.to_owned(),
        };
        draft.intern_method(&name, module).map(Some)
    }
}

impl LinkedStacks for ProfileTables<'_> {
    fn stack_link(&mut self, stack: u32, draft: &mut TreeDraft) -> Result<Option<Link>, ReadFault> {
        let index = stack as usize;
        let columns = self
            .stacks
            .and_then(|s| s.frame.value_at(index).zip(s.caller_of(index)));
        let Some((frame, caller)) = columns else {
            return Ok(None);
        };
        if let Some(Some(method)) = self.methods.get(frame as usize) {
            return Ok(Some((caller, *method)));
        }
        let method = self.frame_method(frame, draft)?;
        // The frame exists, so the table grows no longer than the file's.
        if self.methods.len() <= frame as usize {
            self.methods.resize(frame as usize + 1, None);
        }
        if let Some(entry) = self.methods.get_mut(frame as usize) {
            *entry = Some(method);
        }
        Ok(Some((caller, method)))
    }
}
