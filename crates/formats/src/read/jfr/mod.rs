//! Java Flight Recorder: recordings of the JDK and of async-profiler.
//!
//! A file is a sequence of chunks, each of which describes its own types. The events with stack
//! traces of time or memory are read.

mod metadata;
mod value;

use super::draft::{Owner, TreeDraft};
use super::error::{FilePosition, ReadFault};
use super::input::ProfileInput;
use super::options::ReadOptions;
use super::skipped::Skipped;
use super::time_axis::TimeRange;
use metadata::{Classes, JfrCursor, next_event, read_classes};
use profile::{MethodId, ValueType};
use rustc_hash::FxHashMap;
use std::io::Read;
use std::path::Path;
use value::{JfrValue, JfrValueReader, Pools};

const HEADER: usize = 68;
/// The JDK samples each 10 or 20 ms.
const SHORTEST_SLICE_NS: f64 = 100e6;
/// Offset in the header of the chunk's start time.
const START_TIME: u64 = 32;
const METADATA: i64 = 0;
const COMPRESSED_NUMBERS: i64 = 1;

/// The contribution of an event to the tree: its name, the name and unit of the value type, and the
/// field with the value; without a field, an event counts 1.
struct JfrSource {
    event: &'static str,
    name: &'static str,
    unit: &'static str,
    field: Option<&'static str>,
    /// True if the field is in ticks of the chunk's clock.
    ticks: bool,
}

const fn sample_source(
    event: &'static str,
    name: &'static str,
    unit: &'static str,
    field: Option<&'static str>,
) -> JfrSource {
    JfrSource {
        event,
        name,
        unit,
        field,
        ticks: false,
    }
}

const fn wait_source(event: &'static str, name: &'static str) -> JfrSource {
    JfrSource {
        ticks: true,
        ..sample_source(event, name, "nanoseconds", Some("duration"))
    }
}

const SOURCES: &[JfrSource] = &[
    sample_source("jdk.ExecutionSample", "samples", "samples", None),
    sample_source("jdk.NativeMethodSample", "native samples", "samples", None),
    sample_source("jdk.CPUTimeSample", "CPU time samples", "samples", None),
    sample_source(
        "profiler.WallClockSample",
        "wall clock",
        "samples",
        Some("samples"),
    ),
    sample_source(
        "jdk.ObjectAllocationSample",
        "allocations",
        "bytes",
        Some("weight"),
    ),
    sample_source(
        "jdk.ObjectAllocationInNewTLAB",
        "allocations in new TLABs",
        "bytes",
        Some("tlabSize"),
    ),
    sample_source(
        "jdk.ObjectAllocationOutsideTLAB",
        "allocations outside TLABs",
        "bytes",
        Some("allocationSize"),
    ),
    // Datadog's build of async-profiler.
    sample_source(
        "datadog.ExecutionSample",
        "samples of Datadog",
        "samples",
        Some("weight"),
    ),
    sample_source(
        "datadog.MethodSample",
        "wall clock of Datadog",
        "samples",
        Some("weight"),
    ),
    sample_source(
        "profiler.Malloc",
        "native allocations",
        "bytes",
        Some("size"),
    ),
    sample_source(
        "profiler.LiveObject",
        "live objects",
        "bytes",
        Some("allocationSize"),
    ),
    wait_source("jdk.MethodTrace", "traced methods"),
    wait_source("profiler.NativeLock", "native locks"),
    wait_source("jdk.JavaMonitorEnter", "monitor enter"),
    wait_source("jdk.JavaMonitorWait", "monitor wait"),
    wait_source("jdk.ThreadPark", "park"),
    wait_source("jdk.ThreadSleep", "sleep"),
    wait_source("jdk.SocketRead", "socket read"),
    wait_source("jdk.SocketWrite", "socket write"),
    wait_source("jdk.FileRead", "file read"),
    wait_source("jdk.FileWrite", "file write"),
];

struct JfrReader<'o> {
    draft: TreeDraft,
    options: &'o ReadOptions,
    /// The value types of [`SOURCES`] that occurred.
    values: Vec<Option<usize>>,
    truncated: u64,
    without_stack: u64,
}

/// Returns the start and the end of each chunk of a file, in nanoseconds since 1970. Damage is
/// reported later, by the reader of the chunks.
pub(crate) fn read_jfr_times(path: &Path, options: &ReadOptions) -> Result<TimeRange, ReadFault> {
    let mut input = ProfileInput::open_file(path, &options.limits)?;
    let mut range = TimeRange::default();
    let mut header = Vec::new();
    loop {
        header.clear();
        (&mut input).take(HEADER as u64).read_to_end(&mut header)?;
        let mut fields = JfrCursor::new(&header, 0);
        if header.len() < HEADER {
            return Ok(range);
        }
        fields.read_fixed(8)?;
        let size = fields.read_fixed(8)? as u64;
        let mut times = JfrCursor::new(&header, 0).at_position(START_TIME)?;
        let (start, duration) = (times.read_fixed(8)?, times.read_fixed(8)?);
        range.add_time(start as f64);
        range.add_time(start.saturating_add(duration) as f64);
        let body = size.saturating_sub(HEADER as u64);
        std::io::copy(&mut (&mut input).take(body), &mut std::io::sink())?;
    }
}

pub(crate) fn read_jfr(
    input: &mut ProfileInput,
    times: TimeRange,
    options: &ReadOptions,
) -> Result<TreeDraft, ReadFault> {
    let mut draft = TreeDraft::new(Vec::new(), options);
    draft.set_time_axis(times.slices_from(SHORTEST_SLICE_NS));
    let mut reader = JfrReader {
        draft,
        options,
        values: SOURCES.iter().map(|_| None).collect(),
        truncated: 0,
        without_stack: 0,
    };
    let mut chunk = Vec::new();
    let (mut skipped, mut read) = (Skipped::new("chunks"), 0);
    loop {
        let base = input.next_offset();
        chunk.clear();
        input.take(HEADER as u64).read_to_end(&mut chunk)?;
        if chunk.is_empty() && base > 0 {
            break;
        }
        let at = FilePosition::Offset(base);
        let mut header = JfrCursor::new(&chunk, base);
        if header.read_fixed(4)? != i64::from(u32::from_be_bytes(*b"FLR\0")) {
            return Err(ReadFault::damaged("no chunk where there should be one", at));
        }
        header.read_fixed(4)?;
        let size = header.read_fixed(8)? as u64;
        if size == 0 {
            return Err(ReadFault::damaged(
                "the chunk was not finished: end the recording (jcmd JFR.dump) first",
                at,
            ));
        }
        if size > options.limits.memory {
            let what = format!("a chunk of {size} bytes is more than the memory limit allows");
            return Err(ReadFault::too_large(what, at));
        }
        input
            .take(size.saturating_sub(HEADER as u64))
            .read_to_end(&mut chunk)?;
        if (chunk.len() as u64) < size {
            skipped.skip_part("cut short in a chunk", at);
            break;
        }
        match reader.read_chunk(JfrCursor::new(&chunk, base)) {
            Ok(()) => read += 1,
            Err(ReadFault::Damaged { what, at }) => skipped.skip_part(what, at),
            Err(fault) => return Err(fault),
        }
    }
    let mut draft = reader.draft;
    skipped.note_skipped(read, &mut draft)?;
    if reader.values.iter().all(Option::is_none) {
        draft.add_note(
            "the recording has no events that are read here: samples, allocations, waits",
        );
    }
    // The first that occurred in the order of the table: samples, if there are any.
    draft.default_value = reader.values.iter().flatten().next().copied().unwrap_or(0);
    if reader.truncated > 0 {
        draft.add_note(format!("{} stacks were too deep for the recorder: their outermost callers are missing; -XX:FlightRecorderOptions=stackdepth=N takes more", reader.truncated));
    }
    if reader.without_stack > 0 {
        draft.add_note(format!("{} events have no stack", reader.without_stack));
    }
    Ok(draft)
}

/// The parts of a chunk that are read before its events.
struct JfrChunk {
    pools: Pools,
    /// Nanoseconds a tick.
    tick: f64,
    /// Start in nanoseconds since 1970, and in ticks.
    start: (f64, f64),
    /// Methods by number of the stack trace, cached.
    stacks: FxHashMap<i64, Option<Vec<MethodId>>>,
}

impl JfrReader<'_> {
    fn read_chunk(&mut self, cursor: JfrCursor<'_>) -> Result<(), ReadFault> {
        let mut header = cursor.at_position(16)?;
        let (constants, metadata) = (header.read_fixed(8)? as u64, header.read_fixed(8)? as u64);
        header = cursor.at_position(START_TIME)?;
        let (start_ns, _, start_ticks) = (
            header.read_fixed(8)?,
            header.read_fixed(8)?,
            header.read_fixed(8)?,
        );
        let frequency = header.read_fixed(8)?;
        if header.read_fixed(4)? & COMPRESSED_NUMBERS == 0 {
            return Err(header.fault("numbers are not compressed, which is not read"));
        }
        let mut description = next_event(&mut cursor.at_position(metadata)?)?;
        if description.read_number()? != METADATA {
            return Err(description.fault("no description of types where there should be one"));
        }
        let classes = read_classes(description)?;
        let mut values = JfrValueReader {
            classes: &classes,
            left: self.options.limits.memory,
        };
        let pools = values.read_pools(cursor, constants)?;
        let sources: FxHashMap<i64, usize> = classes
            .iter()
            .filter_map(|(id, class)| {
                Some((
                    *id,
                    SOURCES
                        .iter()
                        .position(|source| source.event == class.name)?,
                ))
            })
            .collect();
        let mut chunk = JfrChunk {
            tick: if frequency > 0 {
                1e9 / frequency as f64
            } else {
                1.0
            },
            start: (start_ns as f64, start_ticks as f64),
            pools,
            stacks: FxHashMap::default(),
        };
        let mut samples = Vec::new();
        let mut events = cursor.at_position(HEADER as u64)?;
        while events.bytes_left() > 0 {
            let at = events.file_position();
            let mut body = next_event(&mut events)?;
            let class = body.read_number()?;
            if let Some(source) = sources.get(&class) {
                values.left = self.options.limits.memory;
                samples.push((*source, values.read_value(class, &mut body, 0)?, at));
            }
            if samples.len() >= 1024 {
                self.add_samples(&mut samples, &mut chunk, &classes)?;
            }
        }
        self.add_samples(&mut samples, &mut chunk, &classes)
    }

    fn add_samples(
        &mut self,
        samples: &mut Vec<(usize, JfrValue, FilePosition)>,
        chunk: &mut JfrChunk,
        classes: &Classes,
    ) -> Result<(), ReadFault> {
        for (index, event, at) in samples.drain(..) {
            let Some(source) = SOURCES.get(index) else {
                continue;
            };
            let field = |name| chunk.pools.field_value(classes, &event, name);
            let amount = match source.field {
                None => 1,
                Some(name) => field(name).and_then(JfrValue::as_number).unwrap_or(1),
            };
            let amount = if source.ticks {
                (amount as f64 * chunk.tick).round() as i64
            } else {
                amount
            };
            let trace = field("stackTrace").cloned();
            let thread = field("sampledThread")
                .or_else(|| field("eventThread"))
                .cloned();
            let slice = self.slice_of(source, &event, chunk, classes);
            let root = self.thread_node(thread.as_ref(), slice, chunk, classes, at)?;
            let methods = match trace {
                Some(JfrValue::Constant(_, number)) => {
                    if !chunk.stacks.contains_key(&number) {
                        let stack = self.stack_methods(trace.as_ref(), chunk, classes)?;
                        chunk.stacks.insert(number, stack);
                    }
                    chunk.stacks.get(&number).and_then(Option::as_ref)
                }
                _ => None,
            };
            self.without_stack += u64::from(methods.is_none());
            let mut node = root;
            for method in methods.into_iter().flatten() {
                node = self.draft.child_node(node, *method, at)?;
            }
            let value = self.value_index(index, source);
            self.draft.add_cost(value, node, amount);
        }
        Ok(())
    }

    fn value_index(&mut self, index: usize, source: &JfrSource) -> usize {
        if let Some(Some(value)) = self.values.get(index) {
            return *value;
        }
        let value = self.draft.add_value_type(ValueType {
            name: source.name.to_owned(),
            unit: source.unit.to_owned(),
        });
        if let Some(entry) = self.values.get_mut(index) {
            *entry = Some(value);
        }
        value
    }

    /// Returns the slice of time in which an event ended.
    fn slice_of(
        &self,
        source: &JfrSource,
        event: &JfrValue,
        chunk: &JfrChunk,
        classes: &Classes,
    ) -> Option<u32> {
        let axis = self.draft.time_axis()?;
        let field = |name| {
            let value = chunk.pools.field_value(classes, event, name)?;
            value.as_number().map(|ticks| ticks as f64)
        };
        let lasted = source.ticks.then(|| field("duration")).flatten();
        let ticks = field("startTime")? + lasted.unwrap_or(0.0) - chunk.start.1;
        Some(axis.slice_at(chunk.start.0 + ticks * chunk.tick))
    }

    fn thread_node(
        &mut self,
        thread: Option<&JfrValue>,
        slice: Option<u32>,
        chunk: &JfrChunk,
        classes: &Classes,
        at: FilePosition,
    ) -> Result<profile::DraftNode, ReadFault> {
        let field = |name| chunk.pools.field_value(classes, thread?, name);
        let text = |name| {
            chunk
                .pools
                .text_of(classes, field(name)?)
                .filter(|t| !t.is_empty())
        };
        let owner = Owner {
            thread: text("javaName").or_else(|| text("osName")),
            tid: field("osThreadId").and_then(JfrValue::as_number),
            slice,
            ..Owner::default()
        };
        self.draft.group_node(&owner, at)
    }

    /// Returns the methods of a stack trace, outermost first.
    fn stack_methods(
        &mut self,
        trace: Option<&JfrValue>,
        chunk: &JfrChunk,
        classes: &Classes,
    ) -> Result<Option<Vec<MethodId>>, ReadFault> {
        let (pools, Some(trace)) = (&chunk.pools, trace) else {
            return Ok(None);
        };
        let Some(JfrValue::Array(frames)) = pools.field_value(classes, trace, "frames") else {
            return Ok(None);
        };
        let truncated = pools
            .field_value(classes, trace, "truncated")
            .and_then(JfrValue::as_number);
        self.truncated += u64::from(truncated == Some(1));
        let mut methods = Vec::with_capacity(frames.len());
        for frame in frames.iter().rev() {
            let field = |value, name| pools.field_value(classes, value, name);
            let text = |value: Option<&JfrValue>| pools.text_of(classes, value?).map(str::to_owned);
            let kind = field(frame, "type").and_then(|kind| field(kind, "description"));
            if !self.options.inline && text(kind).as_deref() == Some("Inlined") {
                continue;
            }
            let method = field(frame, "method");
            let name = text(method.and_then(|m| field(m, "name")));
            let class = method
                .and_then(|m| field(m, "type"))
                .and_then(|c| field(c, "name"));
            let mut label = match (text(class).filter(|c| !c.is_empty()), name) {
                (Some(class), Some(name)) => format!("{}.{name}", class.replace('/', ".")),
                (None, Some(name)) => name,
                (_, None) => "[unknown]".to_owned(),
            };
            let line = field(frame, "lineNumber").and_then(JfrValue::as_number);
            if let Some(line) = line.filter(|line| self.options.lines && *line > 0) {
                label = format!("{label}:{line}");
            }
            methods.push(self.draft.intern_method(&label, "")?);
        }
        Ok(Some(methods))
    }
}
