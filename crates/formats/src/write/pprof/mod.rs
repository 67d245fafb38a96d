//! pprof's `profile.proto`, compressed with gzip: for `go tool pprof` and all that reads its
//! format.
//!
//! The file has all events of the recording, one sample type each: a `cpu-clock` or `task-clock`
//! event as `samples/count` and `cpu/nanoseconds` (count × period), as in Go's own CPU profiles; an
//! event of measured time in `nanoseconds`; any other by its name in `count`. Labels have the
//! process, `pid` and `tid` if they were recorded, and the waker of a wait. Addresses are
//! synthetic, one range for each image, without overlaps. From them the `pprof` of
//! github.com/google/pprof finds the code in the file; `go tool pprof` does not in general, so its
//! disassembly is unreliable.
//!
//! The mangled name of a function is unknown here, so `system_name` is left out: pprof demangles a
//! name that equals the system name, and would cut `<T as Trait>::f` down to `::f`.

mod layout;
mod message;

use crate::frame::Namer;
use crate::write::error::check_recording;
use crate::write::rows::{SampleRow, add_up};
use crate::write::{WriteError, WriteOptions};
use flate2::Compression;
use flate2::write::GzEncoder;
use indexmap::IndexSet;
use layout::Layout;
use message::{
    PprofFunction, PprofLabel, PprofLine, PprofMapping, PprofProfile, PprofSample, PprofValueType,
};
use profile::{Event, EventId, Location, NameId, Recording, StackId, SymbolTable, Target, Unit};
use prost::Message;
use rustc_hash::FxBuildHasher;
use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, BufWriter, Write};

/// Key of a pprof sample. The event comes last, so that the values of one pprof sample are adjacent
/// after sorting.
type Key = (Labels, StackId, EventId);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Labels {
    process: NameId,
    pid: Option<u32>,
    tid: Option<u32>,
    waker: Option<(NameId, u32)>,
}

/// Writes all events of a recording in pprof's format.
///
/// # Errors
/// If the output fails or the recording contradicts itself.
pub fn write_pprof(
    recording: &Recording,
    symbols: &SymbolTable,
    options: &WriteOptions,
    out: &mut dyn Write,
) -> Result<(), WriteError> {
    check_recording(recording)?;
    let rows = add_up(recording.samples.iter().map(sample_row).collect());
    PprofWriter::new(recording, Namer::new(recording, symbols, options), out)
        .write_profile(&rows, options.event)
        .map_err(WriteError::wrap_io("pprof"))
}

fn sample_row(sample: &profile::Sample) -> SampleRow<Key> {
    let labels = Labels {
        process: sample.process,
        pid: sample.pid,
        tid: sample.tid,
        waker: sample.waker.map(|waker| (waker.process, waker.tid)),
    };
    SampleRow::new((labels, sample.stack, sample.event), sample)
}

/// Writes a profile piece by piece: concatenated protobuf messages are one message, so the whole
/// never has to be in memory.
struct PprofWriter<'a> {
    recording: &'a Recording,
    namer: Namer<'a>,
    out: GzEncoder<BufWriter<&'a mut dyn Write>>,
    buffer: Vec<u8>,
    strings: IndexSet<Cow<'a, str>, FxBuildHasher>,
    locations: IndexSet<Location, FxBuildHasher>,
    /// Name and file.
    functions: IndexSet<(i64, i64), FxBuildHasher>,
}

impl<'a> PprofWriter<'a> {
    fn new(recording: &'a Recording, namer: Namer<'a>, out: &'a mut dyn Write) -> Self {
        Self {
            recording,
            namer,
            out: GzEncoder::new(BufWriter::new(out), Compression::fast()),
            buffer: Vec::new(),
            strings: IndexSet::from_iter([Cow::Borrowed("")]),
            locations: IndexSet::default(),
            functions: IndexSet::default(),
        }
    }

    fn write_profile(mut self, rows: &[SampleRow<Key>], first: EventId) -> io::Result<()> {
        self.write_head(first)?;
        let columns = value_columns(&self.recording.events);
        for rows in rows.chunk_by(|a, b| (a.key.0, a.key.1) == (b.key.0, b.key.1)) {
            self.write_sample(rows, &columns)?;
        }
        self.write_locations()?;
        for string in std::mem::take(&mut self.strings) {
            self.emit_part(&PprofProfile {
                string_table: vec![string.into_owned()],
                ..PprofProfile::default()
            })?;
        }
        self.out.finish()?.flush()
    }

    fn emit_part(&mut self, piece: &PprofProfile) -> io::Result<()> {
        self.buffer.clear();
        // Encoding into a vector cannot run out of room.
        piece.encode(&mut self.buffer).map_err(io::Error::other)?;
        self.out.write_all(&self.buffer)
    }

    fn string_index(&mut self, text: impl Into<Cow<'a, str>>) -> i64 {
        self.strings.insert_full(text.into()).0 as i64
    }

    fn write_head(&mut self, first: EventId) -> io::Result<()> {
        let recording = self.recording;
        let mut head = PprofProfile {
            time_nanos: clamp_signed(recording.start_unix_ns),
            duration_nanos: clamp_signed(recording.duration_ns),
            ..PprofProfile::default()
        };
        let clock = recording.events.iter().position(is_clock);
        let mut names: HashSet<Cow<'_, str>> = HashSet::new();
        for (index, event) in recording.events.iter().enumerate() {
            for (name, unit) in sample_types(event, clock == Some(index)) {
                // pprof merges columns of one name, and then finds none in common.
                let name = match names.get(&name) {
                    Some(_) => Cow::Owned(format!("{name}#{}", names.len() + 1)),
                    None => name,
                };
                names.insert(name.clone());
                head.sample_type.push(self.value_type(name, unit));
            }
            if index == usize::from(first.0)
                && let Some(shown) = head.sample_type.last().copied()
            {
                head.default_sample_type = shown.r#type;
                head.period_type = Some(shown);
                head.period = clamp_signed(event.period);
            }
        }
        if head.sample_type.is_empty() {
            // pprof refuses a profile without types, even an empty one.
            head.sample_type
                .push(self.value_type("samples".into(), "count"));
        }
        for comment in recording_comments(recording) {
            let comment = self.string_index(comment);
            head.comment.push(comment);
        }
        self.emit_part(&head)
    }

    fn value_type(&mut self, name: Cow<'a, str>, unit: &'a str) -> PprofValueType {
        PprofValueType {
            r#type: self.string_index(name),
            unit: self.string_index(unit),
        }
    }

    /// Writes one pprof sample: rows that differ only in their event.
    fn write_sample(&mut self, rows: &[SampleRow<Key>], columns: &[usize]) -> io::Result<()> {
        let [first, ..] = rows else { return Ok(()) };
        let mut value = vec![0; columns.last().copied().unwrap_or(0)];
        for row in rows {
            let index = usize::from(row.key.2.0);
            let event = &self.recording.events[index];
            let amount = row.event_value(event);
            let column = columns[index];
            value[column] = clamp_signed(amount);
            if is_clock(event) {
                value[column + 1] = clamp_signed(amount.saturating_mul(event.period));
            }
        }
        if value.iter().all(|value| *value == 0) {
            return Ok(());
        }
        let (labels, stack, _) = first.key;
        let label = self.sample_labels(&labels);
        let location_id = self
            .recording
            .stacks
            .locations(stack)
            .map(|location| element_id(self.locations.insert_full(location).0))
            .collect();
        self.emit_part(&PprofProfile {
            sample: vec![PprofSample {
                location_id,
                value,
                label,
            }],
            ..PprofProfile::default()
        })
    }

    fn sample_labels(&mut self, labels: &Labels) -> Vec<PprofLabel> {
        let names = &self.recording.names;
        let (waker, waker_tid) = labels.waker.unzip();
        let texts = [("process", Some(labels.process)), ("waker", waker)];
        let ids = [
            ("pid", labels.pid),
            ("tid", labels.tid),
            ("waker_tid", waker_tid),
        ];
        let mut all = Vec::new();
        for (key, name) in texts {
            if let Some(name) = name {
                all.push(PprofLabel {
                    key: self.string_index(key),
                    str: self.string_index(names.get(name)),
                    num: 0,
                });
            }
        }
        for (key, id) in ids {
            if let Some(id) = id {
                all.push(PprofLabel {
                    key: self.string_index(key),
                    str: 0,
                    num: id.into(),
                });
            }
        }
        all
    }

    /// Writes the locations of samples, with their functions and mappings.
    fn write_locations(&mut self) -> io::Result<()> {
        let locations = std::mem::take(&mut self.locations);
        let layout = Layout::new(self.recording, &locations);
        let mut mappings = Vec::new();
        for range in &layout.ranges {
            let image = self.recording.image(range.image);
            let build_id = image.build_id.as_ref().map(ToString::to_string);
            mappings.push(PprofMapping {
                id: element_id(mappings.len()),
                memory_start: range.start,
                memory_limit: range.limit,
                file_offset: range.file_offset,
                // Every location has one, if only `image+0xoffset`. Without this mark pprof would
                // look up symbols itself, and `go tool pprof` finds wrong ones: it ignores
                // `file_offset` and takes the start of a mapping for that of the code.
                has_functions: true,
                filename: self.string_index(&*image.path),
                build_id: self.string_index(build_id.unwrap_or_default()),
                ..PprofMapping::default()
            });
        }
        for (index, (location, (range, address))) in
            locations.iter().zip(&layout.places).enumerate()
        {
            let mapping = &mut mappings[*range];
            let line = self.location_lines(*location, mapping);
            self.emit_part(&PprofProfile {
                location: vec![message::PprofLocation {
                    id: element_id(index),
                    mapping_id: mapping.id,
                    address: *address,
                    line,
                }],
                ..PprofProfile::default()
            })?;
        }
        for (index, (name, filename)) in std::mem::take(&mut self.functions).iter().enumerate() {
            self.emit_part(&PprofProfile {
                function: vec![PprofFunction {
                    id: element_id(index),
                    name: *name,
                    filename: *filename,
                    ..PprofFunction::default()
                }],
                ..PprofProfile::default()
            })?;
        }
        self.emit_part(&PprofProfile {
            mapping: mappings,
            ..PprofProfile::default()
        })
    }

    /// Returns the functions at a location. Sets the mapping's flags for known facts of its
    /// locations.
    fn location_lines(&mut self, location: Location, mapping: &mut PprofMapping) -> Vec<PprofLine> {
        let namer = self.namer;
        mapping.has_inline_frames |= namer.expands_inlined_calls(location);
        let mut lines = Vec::new();
        for function in namer.functions_at(location) {
            mapping.has_filenames |= function.file.is_some();
            mapping.has_line_numbers |= function.line.is_some();
            let name = self.string_index(function.name);
            let file = self.string_index(function.file.unwrap_or_default());
            lines.push(PprofLine {
                function_id: element_id(self.functions.insert_full((name, file)).0),
                line: function.line.unwrap_or(0).into(),
            });
        }
        lines
    }
}

/// Returns whether an event's period is a time on a CPU, so that its samples stand for CPU time.
fn is_clock(event: &Event) -> bool {
    let base = event.name.split([':', '/']).next();
    let named = matches!(base, Some("cpu-clock" | "task-clock"));
    named && event.unit == Unit::Samples && event.period > 0
}

/// Returns name and unit of an event's values. The first clock is named as in Go's profiles, a
/// second one needs names of its own.
fn sample_types(event: &Event, first_clock: bool) -> Vec<(Cow<'_, str>, &'static str)> {
    let name = Cow::Borrowed(event.name.as_str());
    if first_clock {
        vec![("samples".into(), "count"), ("cpu".into(), "nanoseconds")]
    } else if is_clock(event) {
        let time = format!("{name}-time").into();
        vec![(name, "count"), (time, "nanoseconds")]
    } else if event.unit == Unit::Nanoseconds {
        vec![(name, "nanoseconds")]
    } else {
        vec![(name, "count")]
    }
}

/// Returns the index of each event's first value, and the number of values.
fn value_columns(events: &[Event]) -> Vec<usize> {
    let mut columns = vec![0];
    let mut width = 0;
    for event in events {
        width += if is_clock(event) { 2 } else { 1 };
        columns.push(width);
    }
    columns
}

/// Returns the notes for which the format has no field.
fn recording_comments(recording: &Recording) -> Vec<String> {
    let host = &recording.host;
    let target = match &recording.target {
        Target::Command(words) => format!("command: {}", words.join(" ")),
        Target::Process(pid) => format!("process: {pid}"),
        Target::Machine => "target: whole machine".to_owned(),
    };
    let mut comments = vec![
        format!("host: {}, {} {}", host.name, host.kernel, host.machine),
        target,
    ];
    let warnings = recording.warnings.iter();
    comments.extend(warnings.map(|warning| format!("warning: {warning}")));
    comments
}

/// Clamps a number to 63 bits, because pprof's numbers are signed.
fn clamp_signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Returns the id of the element at an index.
fn element_id(index: usize) -> u64 {
    index as u64 + 1
}
