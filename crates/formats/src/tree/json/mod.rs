//! Profiles in JSON: Firefox Profiler (processed and Gecko), speedscope, Chromium's `.cpuprofile`
//! and traces.
//!
//! Writers order keys as they like, so a file is read into the union of all formats, once and
//! streaming; which keys it had tells the format.

mod chrome;
mod firefox;
mod gecko;
mod speedscope;
mod trace;
mod value;

use super::draft::Draft;
use super::error::{Fault, Place};
use super::input::Input;
use super::options::ReadOptions;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::io::BufReader;
use value::{Column, OVER_BUDGET};

/// What the errors call a file whose format is not yet known.
pub(crate) const NAME: &str = "JSON profile";

/// All keys that a profile may have.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Document {
    /// Firefox.
    meta: Option<firefox::Meta>,
    libs: Column<gecko::Lib>,
    threads: Option<Column<firefox::Thread>>,
    /// Gecko: those of other processes.
    processes: Column<Document>,
    /// Firefox: the tables that all threads share. speedscope: the frames.
    shared: Option<firefox::Thread>,
    /// speedscope.
    profiles: Option<Column<speedscope::Profile>>,
    /// Chromium's `.cpuprofile`.
    nodes: Option<Column<chrome::Node>>,
    samples: Column<u64>,
    time_deltas: Column<f64>,
    start_time: f64,
    end_time: f64,
    /// Chromium's traces.
    trace_events: Option<Column<trace::Event>>,
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
    let input = BufReader::with_capacity(1 << 16, input);
    let mut deserializer = serde_json::Deserializer::from_reader(input);
    let Root(mut document) = Root::deserialize(&mut deserializer).map_err(fault)?;
    let used = options.limits.memory - value::budget().min(options.limits.memory);
    // Chromium leaves the array of a trace open when it is killed; a tail is somebody's mistake.
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
            samples: document.samples.0,
            time_deltas: document.time_deltas.0,
            start_time: document.start_time,
            end_time: document.end_time,
        };
        return Ok((
            chrome::read(profile, options, used)?,
            "Chromium CPU profile",
        ));
    }
    if let Some(events) = document.trace_events.take() {
        return Ok((trace::read(events.0, options, used)?, "Chromium trace"));
    }
    if document.threads.is_some() {
        if document
            .meta
            .as_ref()
            .is_some_and(firefox::Meta::is_processed)
        {
            return Ok((firefox::read(document, options, used)?, "Firefox profile"));
        }
        return Ok((gecko::read(document, options, used)?, "Gecko profile"));
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
