//! Profiles in JSON: Firefox Profiler, speedscope, Chromium's `.cpuprofile` and traces.
//!
//! Keys may come in any order, so a file is read into the union of all formats, once and streaming.
//! The keys that are present tell the format.

mod chrome;
mod closing;
mod firefox;
mod nested;
mod speedscope;
mod stackprof;
mod trace;
mod value;

use super::draft::TreeDraft;
use super::error::{FilePosition, ReadFault};
use super::input::ProfileInput;
use super::options::ReadOptions;
use closing::ClosingReader;
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error, MapAccess, SeqAccess};
use std::io::BufReader;
use value::{AnyValue, JsonColumn, Lenient, OVER_BUDGET, ObjectTable, Scalar, read_any};

pub(crate) use nested::{detect_nested_json as detect_nested, read_nested_json as read_nested};

/// Name in errors of a file whose format is still unknown.
pub(crate) const NAME: &str = "JSON profile";

/// All possible keys of a profile.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Document {
    /// Firefox.
    meta: Option<firefox::ProfileMeta>,
    threads: Option<JsonColumn<firefox::ThreadTables>>,
    /// Firefox: the tables shared by all threads. speedscope: the frames.
    shared: Option<firefox::ThreadTables>,
    /// speedscope.
    profiles: Option<JsonColumn<speedscope::JsonProfile>>,
    /// Chromium's `.cpuprofile`.
    nodes: Option<JsonColumn<chrome::ChromeNode>>,
    samples: TopSamples,
    time_deltas: JsonColumn<f64>,
    start_time: Scalar,
    end_time: Scalar,
    /// Chromium's traces.
    trace_events: Option<JsonColumn<trace::TraceEvent>>,
    stack_frames: ObjectTable<trace::TraceStackFrame>,
    /// stackprof.
    frames: ObjectTable<stackprof::FrameFields>,
    raw: Option<JsonColumn<f64>>,
    mode: Scalar,
    interval: Scalar,
    /// The envelope that Firefox's developer tools put around a profile.
    profile: Lenient<Box<Document>>,
    /// Safari, which is not supported.
    recording: Option<serde::de::IgnoredAny>,
}

/// `samples` at the top of a file: nodes, or the samples of a trace; for stackprof a number.
#[derive(Default)]
struct TopSamples {
    nodes: Vec<u64>,
    traced: Vec<trace::TracedSample>,
}

impl<'de> AnyValue<'de> for TopSamples {
    fn from_array<A: SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error> {
        let mut all = Self::default();
        while let Some(sample) = seq.next_element::<OneSample>()? {
            match sample {
                OneSample::Node(node) => all.nodes.push(node),
                OneSample::Traced(sample) => all.traced.push(sample),
                OneSample::Other => {}
            }
        }
        Ok(all)
    }
}

impl<'de> Deserialize<'de> for TopSamples {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_any(deserializer)
    }
}

/// An element of [`TopSamples`].
#[derive(Default)]
enum OneSample {
    Node(u64),
    Traced(trace::TracedSample),
    #[default]
    Other,
}

impl<'de> AnyValue<'de> for OneSample {
    fn from_unsigned<E: Error>(node: u64) -> Result<Self, E> {
        value::charge_budget(size_of::<u64>())?;
        Ok(Self::Node(node))
    }
    fn from_object<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        value::charge_budget(size_of::<trace::TracedSample>())?;
        trace::TracedSample::deserialize(MapAccessDeserializer::new(map)).map(Self::Traced)
    }
}

impl<'de> Deserialize<'de> for OneSample {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_any(deserializer)
    }
}

impl<'de> AnyValue<'de> for Document {
    fn from_object<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        Self::deserialize(MapAccessDeserializer::new(map))
    }
    /// Reads the events of a trace.
    fn from_array<A: SeqAccess<'de>>(seq: A) -> Result<Self, A::Error> {
        Ok(Self {
            trace_events: Some(JsonColumn::deserialize(SeqAccessDeserializer::new(seq))?),
            ..Self::default()
        })
    }
}

/// Reads a profile; also returns its format.
pub(crate) fn read_json(
    input: &mut ProfileInput,
    options: &ReadOptions,
) -> Result<(TreeDraft, &'static str), ReadFault> {
    value::set_budget(options.limits.memory);
    // It reads single bytes, and so needs a buffer of its own.
    let input = BufReader::with_capacity(1 << 16, ClosingReader::new(input));
    let mut deserializer = serde_json::Deserializer::from_reader(input);
    let mut document: Document = read_any(&mut deserializer).map_err(json_fault)?;
    let used = options.limits.memory - value::remaining_budget().min(options.limits.memory);
    // Any rest is an error.
    deserializer.end().map_err(json_fault)?;
    let nothing = FilePosition::Offset(0);
    if let Some(profiles) = document.profiles.take() {
        let frames = document.shared.take().unwrap_or_default().frames;
        let draft = speedscope::read_speedscope(&profiles.0, &frames.0, options, used)?;
        return Ok((draft, "speedscope"));
    }
    if let Some(nodes) = document.nodes.take() {
        let profile = chrome::CpuProfile {
            nodes: nodes.0,
            samples: document.samples.nodes,
            time_deltas: document.time_deltas.0,
            start_time: document.start_time.as_number().unwrap_or(0.0),
            end_time: document.end_time.as_number().unwrap_or(0.0),
        };
        let draft = chrome::read_chrome_profile(profile, options, used)?;
        return Ok((draft, "Chromium CPU profile"));
    }
    if let Some(events) = document.trace_events.take() {
        if !events.0.is_empty() && !events.0.iter().any(trace::TraceEvent::has_phase) {
            let what = "an array of objects that are no events of a trace (ph)";
            return Err(ReadFault::damaged(what, nothing));
        }
        let sampled = trace::SampledStacks {
            samples: document.samples.traced,
            frames: document.stack_frames.0,
        };
        let draft = trace::read_trace_events(events.0, sampled, options, used)?;
        return Ok((draft, "Chromium trace"));
    }
    if !document.frames.0.is_empty() {
        let stackprof_document = stackprof::StackprofDocument {
            mode: document.mode,
            interval: document.interval,
            raw: document.raw,
            frames: document.frames,
        };
        let draft = stackprof::read_json(stackprof_document, options, used)?;
        return Ok((draft, "stackprof"));
    }
    if document.threads.is_none()
        && let Some(wrapped) = document.profile.0.take()
    {
        document = *wrapped;
    }
    if document.threads.is_some() {
        return read_mozilla(document, options, used);
    }
    if document.recording.is_some() {
        let what = "a recording of Safari's timeline, which is not read";
        return Err(ReadFault::damaged(what, nothing));
    }
    let what = "none of the keys that profiles have (threads, profiles, nodes, traceEvents)";
    Err(ReadFault::damaged(what, nothing))
}

/// Reads a profile of Firefox, in the browser's form or in that of the profiler's page.
fn read_mozilla(
    document: Document,
    options: &ReadOptions,
    used: u64,
) -> Result<(TreeDraft, &'static str), ReadFault> {
    let threads = document.threads.iter().flat_map(|threads| &threads.0);
    // The first version did not state a version.
    let meta = document.meta.as_ref();
    let is_processed = meta.is_some_and(firefox::ProfileMeta::is_processed)
        || threads.take(1).any(firefox::ThreadTables::is_processed);
    if !is_processed {
        let what = "a profile as Firefox hands it out; open it in the Firefox Profiler, and save it from there";
        return Err(ReadFault::damaged(what, FilePosition::Offset(0)));
    }
    let profile = firefox::ProcessedProfile {
        meta: document.meta.unwrap_or_default(),
        threads: document.threads.unwrap_or_default().0,
        shared: document.shared.unwrap_or_default(),
    };
    let draft = firefox::read_firefox(profile, options, used)?;
    Ok((draft, "Firefox profile"))
}

fn json_fault(error: serde_json::Error) -> ReadFault {
    let at = FilePosition::Column {
        line: error.line() as u64,
        column: error.column() as u64,
    };
    if error.is_io() {
        return std::io::Error::from(error).into();
    }
    let what = error.to_string();
    // The place is reported separately.
    let what = what.split(" at line ").next().unwrap_or(&what).to_owned();
    if what.contains(OVER_BUDGET) {
        ReadFault::too_large(what, at)
    } else {
        ReadFault::damaged(what, at)
    }
}
