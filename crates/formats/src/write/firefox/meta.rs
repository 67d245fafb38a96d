//! The head of a profile.

use profile::{Event, Recording, Target};
use serde::Serialize;
use std::borrow::Cow;

/// The version of the processed format that is written.
const PROCESSED_VERSION: u32 = 61;
/// The version of Firefox's own format; required, and ignored in a processed profile.
const GECKO_VERSION: u32 = 32;
const NO_TIMES: &str = "none: the recording counts samples and does not keep when they were taken, \
    so all are at 0; use the call tree and the flame graph";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FirefoxMeta<'a> {
    interval: f64,
    start_time: f64,
    profiling_start_time: f64,
    profiling_end_time: f64,
    process_type: u32,
    categories: [Category; 3],
    product: String,
    imported_from: &'static str,
    arguments: Option<String>,
    stackwalk: u32,
    debug: bool,
    version: u32,
    preprocessed_profile_version: u32,
    symbolicated: bool,
    oscpu: String,
    platform: &'static str,
    #[serde(rename = "CPUName")]
    cpu_name: Option<&'a str>,
    #[serde(rename = "logicalCPUs")]
    logical_cpus: u32,
    marker_schema: [(); 0],
    sample_units: FirefoxSampleUnits,
    uses_only_one_stack_type: bool,
    source_code_is_not_on_searchfox: bool,
    extra: [MetaSection<'a>; 1],
}

#[derive(Serialize)]
struct Category {
    name: &'static str,
    color: &'static str,
    subcategories: [&'static str; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FirefoxSampleUnits {
    time: &'static str,
    event_delay: &'static str,
    #[serde(rename = "threadCPUDelta")]
    thread_cpu_delta: &'static str,
}

#[derive(Serialize)]
struct MetaSection<'a> {
    label: &'static str,
    entries: Vec<MetaEntry<'a>>,
}

#[derive(Serialize)]
struct MetaEntry<'a> {
    label: &'static str,
    format: &'static str,
    value: Cow<'a, str>,
}

impl<'a> FirefoxMeta<'a> {
    pub fn new(recording: &'a Recording, event: Option<&'a Event>) -> Self {
        let host = &recording.host;
        let (product, arguments) = match &recording.target {
            Target::Command(words) => (
                words.first().map_or("[unknown]", |word| word).to_owned(),
                Some(words.get(1..).unwrap_or_default().join(" ")),
            ),
            Target::Process(pid) => (format!("process {pid}"), None),
            Target::Machine => (host.name.clone(), None),
        };
        let interval = event.map_or(1.0, interval_ms);
        Self {
            interval,
            start_time: to_milliseconds(recording.start_unix_ns),
            profiling_start_time: 0.0,
            profiling_end_time: interval,
            process_type: 0,
            categories: [("Other", "grey"), ("User", "yellow"), ("Kernel", "orange")].map(
                |(name, color)| Category {
                    name,
                    color,
                    subcategories: ["Other"],
                },
            ),
            product: format!("{product} (no time axis)"),
            imported_from: "vitalfew",
            arguments,
            stackwalk: 1,
            debug: false,
            version: GECKO_VERSION,
            preprocessed_profile_version: PROCESSED_VERSION,
            symbolicated: true,
            oscpu: format!("Linux {} {}", host.kernel, host.machine),
            platform: "X11",
            cpu_name: host.cpu_model.as_deref(),
            logical_cpus: host.cpus,
            marker_schema: [],
            sample_units: FirefoxSampleUnits {
                time: "ms",
                event_delay: "ms",
                thread_cpu_delta: "ns",
            },
            uses_only_one_stack_type: true,
            source_code_is_not_on_searchfox: true,
            extra: [MetaSection {
                label: "Recording",
                entries: recording_entries(recording, event),
            }],
        }
    }
}

fn recording_entries<'a>(recording: &'a Recording, event: Option<&'a Event>) -> Vec<MetaEntry<'a>> {
    let event = event.map_or("none", |event| event.name.as_str());
    let duration = format!("{:.3} s", recording.duration_ns as f64 / 1e9);
    let facts = [
        ("Time axis", NO_TIMES.into()),
        ("Duration", duration.into()),
        ("Event", event.into()),
        ("Host", recording.host.name.as_str().into()),
    ];
    let warnings = recording.warnings.iter();
    let warnings = warnings.map(|warning| ("Warning", warning.as_str().into()));
    facts
        .into_iter()
        .chain(warnings)
        .map(|(label, value)| MetaEntry {
            label,
            format: "string",
            value,
        })
        .collect()
}

/// Returns the nominal time between two samples of one CPU, if the event has one.
fn interval_ms(event: &Event) -> f64 {
    match event.frequency {
        Some(hertz) if hertz.is_finite() && hertz > 0.0 => 1000.0 / hertz,
        _ => 1.0,
    }
}

pub(super) fn to_milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}
