//! Profiles in JSON: Firefox Profiler (processed and Gecko), speedscope, Chromium's `.cpuprofile`
//! and traces.
//!
//! Writers order keys as they like, so a file is read into the union of all formats, once and
//! streaming; which keys it had tells the format.

mod chrome;
mod closing;
mod firefox;
mod gecko;
mod nested;
mod rows;
mod speedscope;
mod stackprof;
mod trace;
mod value;

use super::draft::Draft;
use super::error::{Fault, Place};
use super::input::Input;
use super::options::ReadOptions;
use closing::ClosingReader;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::io::BufReader;
use value::{Column, Lenient, OVER_BUDGET, ObjectTable, Scalar};

pub(crate) use nested::{detect as detect_nested, read as read_nested};

/// What the errors call a file whose format is not yet known.
pub(crate) const NAME: &str = "JSON profile";

/// All keys that a profile may have.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Document {
    /// Firefox.
    meta: Option<firefox::Meta>,
    libs: gecko::Libs,
    threads: Option<Column<firefox::Thread>>,
    /// Gecko: those of other processes.
    processes: Column<Subprocess>,
    /// Firefox: the tables that all threads share. speedscope: the frames.
    shared: Option<firefox::Thread>,
    /// speedscope.
    profiles: Option<Column<speedscope::Profile>>,
    /// Chromium's `.cpuprofile`.
    nodes: Option<Column<chrome::Node>>,
    samples: TopSamples,
    time_deltas: Column<f64>,
    start_time: Scalar,
    end_time: Scalar,
    /// Chromium's traces.
    trace_events: Option<Column<trace::Event>>,
    stack_frames: ObjectTable<trace::StackFrame>,
    /// stackprof.
    frames: ObjectTable<stackprof::Frame>,
    raw: Option<Column<f64>>,
    mode: Scalar,
    interval: Scalar,
    /// What Firefox's developer tools put around a Gecko profile.
    profile: Lenient<Box<Document>>,
    /// Safari, which is not read.
    recording: Option<serde::de::IgnoredAny>,
}

/// Gecko's profile of another process; in old versions, the text of one.
struct Subprocess(Document);

impl<'de> Deserialize<'de> for Subprocess {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Subprocess;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the profile of a process")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Subprocess, A::Error> {
                Document::deserialize(MapAccessDeserializer::new(map)).map(Subprocess)
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Subprocess, E> {
                // Text within text within text would be endless work.
                if text.contains(r#"\\\""#) {
                    return Ok(Subprocess(Document::default()));
                }
                serde_json::from_str(text)
                    .map(Subprocess)
                    .map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// `samples` at the top of a file: nodes, or the samples of a trace; a number of stackprof.
#[derive(Default)]
struct TopSamples {
    nodes: Vec<u64>,
    traced: Vec<trace::TracedSample>,
}

impl<'de> Deserialize<'de> for TopSamples {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = TopSamples;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("samples")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<TopSamples, A::Error> {
                let mut all = TopSamples::default();
                while let Some(sample) = seq.next_element::<OneSample>()? {
                    match sample {
                        OneSample::Node(node) => all.nodes.push(node),
                        OneSample::Traced(sample) => all.traced.push(sample),
                        OneSample::Other => {}
                    }
                }
                Ok(all)
            }
            fn visit_u64<E: Error>(self, _: u64) -> Result<TopSamples, E> {
                Ok(TopSamples::default())
            }
            fn visit_unit<E: Error>(self) -> Result<TopSamples, E> {
                Ok(TopSamples::default())
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// An element of [`TopSamples`].
enum OneSample {
    Node(u64),
    Traced(trace::TracedSample),
    Other,
}

impl<'de> Deserialize<'de> for OneSample {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = OneSample;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sample")
            }
            fn visit_u64<E: Error>(self, node: u64) -> Result<OneSample, E> {
                value::take(size_of::<u64>())?;
                Ok(OneSample::Node(node))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OneSample, A::Error> {
                value::take(size_of::<trace::TracedSample>())?;
                let map = MapAccessDeserializer::new(map);
                trace::TracedSample::deserialize(map).map(OneSample::Traced)
            }
            fn visit_i64<E: Error>(self, _: i64) -> Result<OneSample, E> {
                Ok(OneSample::Other)
            }
            fn visit_f64<E: Error>(self, _: f64) -> Result<OneSample, E> {
                Ok(OneSample::Other)
            }
            fn visit_str<E: Error>(self, _: &str) -> Result<OneSample, E> {
                Ok(OneSample::Other)
            }
            fn visit_unit<E: Error>(self) -> Result<OneSample, E> {
                Ok(OneSample::Other)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// The whole file: an object, or the array of a trace's events.
struct Root(Document);

impl<'de> Deserialize<'de> for Root {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Root;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object or an array")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Root, A::Error> {
                Document::deserialize(MapAccessDeserializer::new(map)).map(Root)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Root, A::Error> {
                let seq = serde::de::value::SeqAccessDeserializer::new(seq);
                Ok(Root(Document {
                    trace_events: Some(Column::deserialize(seq)?),
                    ..Document::default()
                }))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// Reads a profile; also says which format it was.
pub(crate) fn read(
    input: &mut Input,
    options: &ReadOptions,
) -> Result<(Draft, &'static str), Fault> {
    value::set_budget(options.limits.memory);
    // It takes single bytes, and so needs a buffer of its own.
    let input = BufReader::with_capacity(1 << 16, ClosingReader::new(input));
    let mut deserializer = serde_json::Deserializer::from_reader(input);
    let Root(mut document) = Root::deserialize(&mut deserializer).map_err(fault)?;
    let used = options.limits.memory - value::budget().min(options.limits.memory);
    // A tail is somebody's mistake.
    deserializer.end().map_err(fault)?;
    let nothing = Place::Offset(0);
    if let Some(profiles) = document.profiles.take() {
        let frames = document.shared.take().unwrap_or_default().frames;
        let draft = speedscope::read(&profiles.0, &frames.0, options, used)?;
        return Ok((draft, "speedscope"));
    }
    if let Some(nodes) = document.nodes.take() {
        let profile = chrome::CpuProfile {
            nodes: nodes.0,
            samples: document.samples.nodes,
            time_deltas: document.time_deltas.0,
            start_time: document.start_time.number().unwrap_or(0.0),
            end_time: document.end_time.number().unwrap_or(0.0),
        };
        return Ok((
            chrome::read(profile, options, used)?,
            "Chromium CPU profile",
        ));
    }
    if let Some(events) = document.trace_events.take() {
        if !events.0.is_empty() && !events.0.iter().any(trace::Event::has_phase) {
            let what = "an array of objects that are no events of a trace (ph)";
            return Err(Fault::damaged(what, nothing));
        }
        let sampled = trace::SampledStacks {
            samples: document.samples.traced,
            frames: document.stack_frames.0,
        };
        let draft = trace::read(events.0, sampled, options, used)?;
        return Ok((draft, "Chromium trace"));
    }
    if !document.frames.0.is_empty() {
        return Ok((stackprof::read_json(document, options, used)?, "stackprof"));
    }
    if document.threads.is_none()
        && let Some(wrapped) = document.profile.0.take()
    {
        document = *wrapped;
    }
    if document.threads.is_some() {
        let threads = document.threads.iter().flat_map(|threads| &threads.0);
        // The first version did not say that it was one.
        if document
            .meta
            .as_ref()
            .is_some_and(firefox::Meta::is_processed)
            || threads.take(1).any(firefox::Thread::is_processed)
        {
            return Ok((firefox::read(document, options, used)?, "Firefox profile"));
        }
        return Ok((gecko::read(document, options, used)?, "Gecko profile"));
    }
    if document.recording.is_some() {
        let what = "a recording of Safari's timeline, which is not read";
        return Err(Fault::damaged(what, nothing));
    }
    let what = "none of the keys that profiles have (threads, profiles, nodes, traceEvents)";
    Err(Fault::damaged(what, nothing))
}

fn fault(error: serde_json::Error) -> Fault {
    let at = Place::Column {
        line: error.line() as u64,
        column: error.column() as u64,
    };
    if error.is_io() {
        return std::io::Error::from(error).into();
    }
    let what = error.to_string();
    // The place is told apart.
    let what = what.split(" at line ").next().unwrap_or(&what).to_owned();
    match what.contains(OVER_BUDGET) {
        true => Fault::too_large(what, at),
        false => Fault::damaged(what, at),
    }
}
