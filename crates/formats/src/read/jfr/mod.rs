//! Java Flight Recorder: what the JDK and async-profiler write.
//!
//! A file is a row of chunks, and each describes its own types. The events with a stack trace that
//! tell where time or memory goes are read.

mod metadata;
mod value;

use super::draft::{Draft, Owner};
use super::error::{Fault, Place};
use super::input::Input;
use super::options::ReadOptions;
use super::skipped::Skipped;
use metadata::{Classes, Cursor, classes, event};
use profile::{MethodId, ValueType};
use rustc_hash::FxHashMap;
use std::io::Read;
use value::{Pools, Value, Values};

const HEADER: usize = 68;
const METADATA: i64 = 0;
const COMPRESSED_NUMBERS: i64 = 1;

/// What an event adds to the tree: its name, that of the value type, the unit, and the field that
/// has the value; without one, an event counts 1.
struct Source {
    event: &'static str,
    name: &'static str,
    unit: &'static str,
    field: Option<&'static str>,
    /// The field is in ticks of the chunk's clock.
    ticks: bool,
}

const fn source(
    event: &'static str,
    name: &'static str,
    unit: &'static str,
    field: Option<&'static str>,
) -> Source {
    Source {
        event,
        name,
        unit,
        field,
        ticks: false,
    }
}

const fn wait(event: &'static str, name: &'static str) -> Source {
    Source {
        ticks: true,
        ..source(event, name, "nanoseconds", Some("duration"))
    }
}

const SOURCES: &[Source] = &[
    source("jdk.ExecutionSample", "samples", "samples", None),
    source("jdk.NativeMethodSample", "native samples", "samples", None),
    source("jdk.CPUTimeSample", "CPU time samples", "samples", None),
    source(
        "profiler.WallClockSample",
        "wall clock",
        "samples",
        Some("samples"),
    ),
    source(
        "jdk.ObjectAllocationSample",
        "allocations",
        "bytes",
        Some("weight"),
    ),
    source(
        "jdk.ObjectAllocationInNewTLAB",
        "allocations in new TLABs",
        "bytes",
        Some("tlabSize"),
    ),
    source(
        "jdk.ObjectAllocationOutsideTLAB",
        "allocations outside TLABs",
        "bytes",
        Some("allocationSize"),
    ),
    source(
        "profiler.Malloc",
        "native allocations",
        "bytes",
        Some("size"),
    ),
    source(
        "profiler.LiveObject",
        "live objects",
        "bytes",
        Some("allocationSize"),
    ),
    wait("jdk.MethodTrace", "traced methods"),
    wait("profiler.NativeLock", "native locks"),
    wait("jdk.JavaMonitorEnter", "monitor enter"),
    wait("jdk.JavaMonitorWait", "monitor wait"),
    wait("jdk.ThreadPark", "park"),
    wait("jdk.ThreadSleep", "sleep"),
    wait("jdk.SocketRead", "socket read"),
    wait("jdk.SocketWrite", "socket write"),
    wait("jdk.FileRead", "file read"),
    wait("jdk.FileWrite", "file write"),
];

struct Reader<'o> {
    draft: Draft,
    options: &'o ReadOptions,
    /// The value types of [`SOURCES`] that there were.
    values: Vec<Option<usize>>,
    truncated: u64,
    without_stack: u64,
}

pub(crate) fn read(input: &mut Input, options: &ReadOptions) -> Result<Draft, Fault> {
    let mut reader = Reader {
        draft: Draft::new(Vec::new(), options),
        options,
        values: SOURCES.iter().map(|_| None).collect(),
        truncated: 0,
        without_stack: 0,
    };
    let mut chunk = Vec::new();
    let (mut skipped, mut read) = (Skipped::new("chunks"), 0);
    loop {
        let base = input.offset();
        chunk.clear();
        input.take(HEADER as u64).read_to_end(&mut chunk)?;
        if chunk.is_empty() && base > 0 {
            break;
        }
        let at = Place::Offset(base);
        let mut header = Cursor::new(&chunk, base);
        if header.fixed(4)? != i64::from(u32::from_be_bytes(*b"FLR\0")) {
            return Err(Fault::damaged("no chunk where there should be one", at));
        }
        header.fixed(4)?;
        let size = header.fixed(8)? as u64;
        if size == 0 {
            return Err(Fault::damaged(
                "the chunk was not finished: end the recording (jcmd JFR.dump) first",
                at,
            ));
        }
        if size > options.limits.memory {
            let what = format!("a chunk of {size} bytes is more than the memory limit allows");
            return Err(Fault::too_large(what, at));
        }
        input
            .take(size.saturating_sub(HEADER as u64))
            .read_to_end(&mut chunk)?;
        if (chunk.len() as u64) < size {
            skipped.add("cut short in a chunk", at);
            break;
        }
        match reader.chunk(Cursor::new(&chunk, base)) {
            Ok(()) => read += 1,
            Err(Fault::Damaged { what, at }) => skipped.add(what, at),
            Err(fault) => return Err(fault),
        }
    }
    let mut draft = reader.draft;
    skipped.finish(read, &mut draft)?;
    if reader.values.iter().all(Option::is_none) {
        draft.note("the recording has no events that are read here: samples, allocations, waits");
    }
    // The first that there is in the order of the table: samples, if there are any.
    draft.default_value = reader.values.iter().flatten().next().copied().unwrap_or(0);
    if reader.truncated > 0 {
        draft.note(format!("{} stacks were too deep for the recorder: their outermost callers are missing; -XX:FlightRecorderOptions=stackdepth=N takes more", reader.truncated));
    }
    if reader.without_stack > 0 {
        draft.note(format!("{} events have no stack", reader.without_stack));
    }
    Ok(draft)
}

/// What is read of a chunk before its events.
struct Chunk {
    pools: Pools,
    /// Nanoseconds a tick.
    tick: f64,
    /// By number of the stack trace, once it was asked for.
    stacks: FxHashMap<i64, Option<Vec<MethodId>>>,
}

impl Reader<'_> {
    fn chunk(&mut self, cursor: Cursor<'_>) -> Result<(), Fault> {
        let mut header = cursor.at(16)?;
        let (constants, metadata) = (header.fixed(8)? as u64, header.fixed(8)? as u64);
        header = cursor.at(56)?;
        let frequency = header.fixed(8)?;
        if header.fixed(4)? & COMPRESSED_NUMBERS == 0 {
            return Err(header.fault("numbers are not compressed, which is not read"));
        }
        let mut description = event(&mut cursor.at(metadata)?)?;
        if description.number()? != METADATA {
            return Err(description.fault("no description of types where there should be one"));
        }
        let classes = classes(description)?;
        let mut values = Values {
            classes: &classes,
            left: self.options.limits.memory,
        };
        let pools = values.pools(cursor, constants)?;
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
        let mut chunk = Chunk {
            tick: if frequency > 0 {
                1e9 / frequency as f64
            } else {
                1.0
            },
            pools,
            stacks: FxHashMap::default(),
        };
        let mut samples = Vec::new();
        let mut events = cursor.at(HEADER as u64)?;
        while events.left() > 0 {
            let at = events.place();
            let mut body = event(&mut events)?;
            let class = body.number()?;
            if let Some(source) = sources.get(&class) {
                values.left = self.options.limits.memory;
                samples.push((*source, values.read(class, &mut body, 0)?, at));
            }
            if samples.len() >= 1024 {
                self.samples(&mut samples, &mut chunk, &classes)?;
            }
        }
        self.samples(&mut samples, &mut chunk, &classes)
    }

    fn samples(
        &mut self,
        samples: &mut Vec<(usize, Value, Place)>,
        chunk: &mut Chunk,
        classes: &Classes,
    ) -> Result<(), Fault> {
        for (index, event, at) in samples.drain(..) {
            let Some(source) = SOURCES.get(index) else {
                continue;
            };
            let field = |name| chunk.pools.field(classes, &event, name);
            let amount = match source.field {
                None => 1,
                Some(name) => field(name).and_then(Value::number).unwrap_or(1),
            };
            let amount = match source.ticks {
                true => (amount as f64 * chunk.tick).round() as i64,
                false => amount,
            };
            let trace = field("stackTrace").cloned();
            let thread = field("sampledThread")
                .or_else(|| field("eventThread"))
                .cloned();
            let root = self.thread(thread.as_ref(), chunk, classes, at)?;
            let methods = match trace {
                Some(Value::Constant(_, number)) => {
                    if !chunk.stacks.contains_key(&number) {
                        let stack = self.stack(trace.as_ref(), chunk, classes)?;
                        chunk.stacks.insert(number, stack);
                    }
                    chunk.stacks.get(&number).and_then(Option::as_ref)
                }
                _ => None,
            };
            self.without_stack += u64::from(methods.is_none());
            let mut node = root;
            for method in methods.into_iter().flatten() {
                node = self.draft.child(node, *method, at)?;
            }
            let value = self.value(index, source);
            self.draft.add(value, node, amount);
        }
        Ok(())
    }

    fn value(&mut self, index: usize, source: &Source) -> usize {
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

    fn thread(
        &mut self,
        thread: Option<&Value>,
        chunk: &Chunk,
        classes: &Classes,
        at: Place,
    ) -> Result<profile::DraftNode, Fault> {
        let field = |name| chunk.pools.field(classes, thread?, name);
        let text = |name| {
            chunk
                .pools
                .text(classes, field(name)?)
                .filter(|t| !t.is_empty())
        };
        let owner = Owner {
            thread: text("javaName").or_else(|| text("osName")),
            tid: field("osThreadId").and_then(Value::number),
            ..Owner::default()
        };
        self.draft.group(&owner, at)
    }

    /// The methods of a stack trace, outermost first.
    fn stack(
        &mut self,
        trace: Option<&Value>,
        chunk: &Chunk,
        classes: &Classes,
    ) -> Result<Option<Vec<MethodId>>, Fault> {
        let (pools, Some(trace)) = (&chunk.pools, trace) else {
            return Ok(None);
        };
        let Some(Value::Array(frames)) = pools.field(classes, trace, "frames") else {
            return Ok(None);
        };
        let truncated = pools
            .field(classes, trace, "truncated")
            .and_then(Value::number);
        self.truncated += u64::from(truncated == Some(1));
        let mut methods = Vec::with_capacity(frames.len());
        for frame in frames.iter().rev() {
            let field = |value, name| pools.field(classes, value, name);
            let text = |value: Option<&Value>| pools.text(classes, value?).map(str::to_owned);
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
            let line = field(frame, "lineNumber").and_then(Value::number);
            if let Some(line) = line.filter(|line| self.options.lines && *line > 0) {
                label = format!("{label}:{line}");
            }
            methods.push(self.draft.method(&label, "")?);
        }
        Ok(Some(methods))
    }
}
