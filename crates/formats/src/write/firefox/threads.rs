//! Threads and their samples.

use super::meta::to_milliseconds;
use crate::frame::process_name;
use crate::write::paths::StackPaths;
use crate::write::rows::{SampleRow, add_up, samples_of};
use profile::{Event, EventId, NameId, ProcessNames, Recording, Unit};
use rustc_hash::FxHashMap;
use serde::Serialize;

/// Key of a thread; a renamed thread counts as two.
type Key = (Option<u32>, Option<u32>, NameId);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FirefoxThread {
    process_type: &'static str,
    process_startup_time: f64,
    process_shutdown_time: Option<f64>,
    register_time: f64,
    unregister_time: Option<f64>,
    paused_ranges: [(); 0],
    name: String,
    is_main_thread: bool,
    process_name: String,
    pid: String,
    tid: String,
    samples: FirefoxSamples,
    markers: Markers,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FirefoxSamples {
    length: usize,
    stack: Vec<Option<usize>>,
    time: Vec<f64>,
    weight: Weights,
    weight_type: &'static str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Weights {
    Samples(Vec<u64>),
    Milliseconds(Vec<f64>),
}

/// An empty table of markers.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Markers {
    length: usize,
    data: [(); 0],
    name: [(); 0],
    start_time: [(); 0],
    end_time: [(); 0],
    phase: [(); 0],
    category: [(); 0],
}

/// Returns the threads with samples of the event. If the recording has no process ids, each process
/// name is a process; without thread ids, each process is one thread.
pub(super) fn threads_with_samples(
    recording: &Recording,
    id: EventId,
    event: &Event,
    paths: &StackPaths,
) -> Vec<FirefoxThread> {
    let rows: Vec<SampleRow<(Key, Option<usize>)>> = add_up(
        samples_of(recording, id)
            .map(|sample| {
                let thread = (sample.pid, sample.tid, sample.process);
                SampleRow::new((thread, paths.node_of_stack(sample.stack)), sample)
            })
            .collect(),
    );
    let mut tids = Unique::default();
    let processes = ProcessNames::of_recording(recording);
    rows.chunk_by(|a, b| a.key.0 == b.key.0)
        .filter_map(|rows| {
            let (pid, tid, name) = rows.first()?.key.0;
            let samples = thread_samples(rows, event)?;
            let name = process_name(recording.names.get(name)).to_owned();
            let main = pid.and_then(|pid| processes.name_of_process(pid));
            let pid_text = pid.map_or_else(|| name.clone(), |pid| pid.to_string());
            let tid_text = tid.map_or_else(|| pid_text.clone(), |tid| tid.to_string());
            Some(FirefoxThread {
                process_type: "default",
                process_startup_time: 0.0,
                process_shutdown_time: None,
                register_time: 0.0,
                unregister_time: None,
                paused_ranges: [],
                is_main_thread: tid.is_none() || tid == pid,
                process_name: main
                    .map_or(&*name, |id| process_name(recording.names.get(id)))
                    .to_owned(),
                name,
                pid: pid_text,
                tid: tids.make_unique(tid_text),
                samples,
                markers: Markers::default(),
            })
        })
        .collect()
}

/// Returns the samples of one thread; `None` if their values are zero.
fn thread_samples(
    rows: &[SampleRow<(Key, Option<usize>)>],
    event: &Event,
) -> Option<FirefoxSamples> {
    let (stack, values): (Vec<_>, Vec<_>) = rows
        .iter()
        .map(|row| (row.key.1, row.event_value(event)))
        .filter(|(_, value)| *value > 0)
        .unzip();
    let length = values.len();
    let samples = FirefoxSamples {
        length,
        stack,
        time: vec![0.0; length], // times of samples are not recorded
        weight_type: match event.unit {
            Unit::Samples => "samples",
            Unit::Nanoseconds => "tracing-ms",
        },
        weight: match event.unit {
            Unit::Samples => Weights::Samples(values),
            Unit::Nanoseconds => {
                Weights::Milliseconds(values.into_iter().map(to_milliseconds).collect())
            }
        },
    };
    (length > 0).then_some(samples)
}

/// Makes thread ids unique, as the front end needs them.
#[derive(Default)]
struct Unique(FxHashMap<String, u32>);

impl Unique {
    fn make_unique(&mut self, id: String) -> String {
        let seen = self.0.entry(id.clone()).or_insert(0);
        *seen += 1;
        match *seen {
            1 => id,
            n => format!("{id}.{}", n - 1),
        }
    }
}
