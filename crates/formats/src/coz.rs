//! Profiles of Coz, the causal profiler: reads and writes the form of its viewer.
//!
//! A file has one record a line, each with its type and its fields: `type<TAB>key=value…`, or an
//! object of JSON. Records of progress points belong to the experiment before them; a `startup`
//! begins a run. `samples` and `runtime` are repeated as they grow, so the last record of a run
//! counts.
//!
//! The form has no place for delays (durations are effective ones), for measurements of undelayed
//! times, for the start of an experiment, or for the way visits were counted. A parsed profile has
//! 0 there, and its `collector` is `coz`. For a latency, Coz writes the number in flight at the end
//! of the experiment, not the average over it; a run with such points has a warning. vitalfew
//! writes the average, rounded in the tabbed form, which Coz's viewer reads as integers.

use crate::write::WriteError;
use profile::*;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::io::Write;

/// Maximum number of progress points of a run, far above that of any program.
const MAX_POINTS: usize = 1000;

/// The form of a profile: tabbed or JSON lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CozForm {
    /// Tabbed, for all versions of Coz.
    Tabbed,
    /// JSON on each line, as versions since 2026 write it.
    JsonLines,
}

/// Reason for which a file is no profile of Coz.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}, in the line at offset {offset}")]
pub struct CozReadError {
    /// Start of the line, in bytes.
    pub offset: usize,
    /// The damage.
    pub what: String,
}

/// A record; its type determines its fields.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct CozRecord {
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    selected: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    speedup: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<i128>,
    #[serde(skip_serializing_if = "Option::is_none", alias = "selected-samples")]
    selected_samples: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arrivals: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    departures: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
}

/// Returns whether bytes begin like a profile of Coz.
pub fn is_coz(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or(bytes);
    let json = line.trim_ascii_start().starts_with(b"{");
    if json {
        serde_json::from_slice::<CozRecord>(line).is_ok_and(|record| is_known_record(&record.kind))
    } else {
        {
            let kind = line.split(|byte| *byte == b'\t').next();
            kind.is_some_and(|kind| is_known_record(&String::from_utf8_lossy(kind)))
                && line.contains(&b'\t')
        }
    }
}

fn is_known_record(kind: &str) -> bool {
    const KINDS: [&str; 8] = [
        "startup",
        "shutdown",
        "experiment",
        "throughput-point",
        "progress-point",
        "latency-point",
        "samples",
        "runtime",
    ];
    KINDS.contains(&kind)
}

/// Reads a profile of Coz, in either form.
///
/// # Errors
/// At the first line that is not such a record.
pub fn read_coz(bytes: &[u8]) -> Result<CausalProfile, CozReadError> {
    let mut reader = CozReader::default();
    let mut offset = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let failed = |what| CozReadError { offset, what };
        let text = std::str::from_utf8(line).map_err(|_| failed("not UTF-8".to_owned()))?;
        let text = text.trim_end_matches(['\r', '\n']);
        if !text.is_empty() {
            let record = parse_record(text).map_err(failed)?;
            reader.add_record(record).map_err(failed)?;
        }
        offset += line.len();
    }
    Ok(reader.finish_profile())
}

fn parse_record(line: &str) -> Result<CozRecord, String> {
    if line.starts_with('{') {
        return serde_json::from_str(line).map_err(|error| error.to_string());
    }
    let mut parts = line.split('\t');
    let mut record = CozRecord {
        kind: parts.next().unwrap_or("").to_owned(),
        ..CozRecord::default()
    };
    for (key, value) in parts.filter_map(|part| part.split_once('=')) {
        match key {
            "time" => record.time = Some(parse_number(key, value)?),
            "selected" => record.selected = Some(value.to_owned()),
            "speedup" => record.speedup = Some(parse_number(key, value)?),
            "duration" => record.duration = Some(parse_number(key, value)?),
            "selected-samples" => record.selected_samples = Some(parse_number(key, value)?),
            "name" => record.name = Some(value.to_owned()),
            "delta" => record.delta = Some(parse_number(key, value)?),
            "arrivals" => record.arrivals = Some(parse_number(key, value)?),
            "departures" => record.departures = Some(parse_number(key, value)?),
            "difference" => record.difference = Some(parse_number(key, value)?),
            "location" => record.location = Some(value.to_owned()),
            // Old versions also write it once, as the number of samples of a whole run.
            "count" => record.count = Some(parse_number(key, value)?),
            _ => {}
        }
    }
    Ok(record)
}

fn parse_number<T: std::str::FromStr>(key: &str, value: &str) -> Result<T, String> {
    let shown: String = value.chars().take(40).collect();
    let parsed = value.parse();
    parsed.map_err(|_| format!("{key} is {shown:?}, which is not a number that it can have"))
}

#[derive(Default)]
struct CozReader {
    runs: Vec<CausalRun>,
    fragments: FxHashMap<String, u32>,
    points: FxHashMap<String, usize>,
    /// Latency points of the current run.
    latency: bool,
    runtime: Option<u64>,
}

impl CozReader {
    fn add_record(&mut self, record: CozRecord) -> Result<(), String> {
        match record.kind.as_str() {
            "startup" => self.begin_run(record.time.unwrap_or(0)),
            "shutdown" => {}
            "runtime" => self.runtime = self.runtime.max(record.time),
            "samples" => {
                let location = required_field(record.location, "location")?;
                let count = required_field(record.count, "count")?;
                let fragment = self.fragment_index(location)?;
                if let Some(fragment) = self.current_run().fragments.get_mut(fragment as usize) {
                    fragment.samples = count;
                }
            }
            "experiment" => {
                let speedup = required_field(record.speedup, "speedup")?;
                if !(0.0..=1.0).contains(&speedup) {
                    return Err(format!("a speedup of {speedup} is not from 0 to 1"));
                }
                let duration = required_field(record.duration, "duration")?;
                let fragment = self.fragment_index(required_field(record.selected, "selected")?)?;
                // Old versions do not write it; then nothing tells that the fragment did not run.
                let samples = record.selected_samples.unwrap_or(1);
                self.current_run().experiments.push(Experiment {
                    fragment,
                    speedup,
                    start_ns: 0,
                    // If more was delayed than passed, Coz writes a negative number as one above
                    // 2^63: unusable.
                    duration_ns: u64::try_from(i64::try_from(duration).unwrap_or(0)).unwrap_or(0),
                    delay_ns: 0,
                    samples,
                    counts: Vec::new(),
                    disturbance: None,
                    meetings: None,
                    spinning: None,
                    at_pace: false,
                });
            }
            "throughput-point" | "progress-point" => {
                let visits = required_field(record.delta, "delta")?;
                self.add_visits(record.name, Progress::Visits(visits), visits)?;
            }
            "latency-point" => {
                self.latency = true;
                let arrivals = required_field(record.arrivals, "arrivals")?;
                let difference = required_field(record.difference, "difference")?;
                let latency = Progress::Latency {
                    arrivals,
                    departures: required_field(record.departures, "departures")?,
                    // Counts read at different moments wrap around below 0.
                    in_flight: if (0.0..9e18).contains(&difference) {
                        difference
                    } else {
                        0.0
                    },
                };
                self.add_visits(record.name, latency, arrivals)?;
            }
            kind => {
                let shown: String = kind.chars().take(40).collect();
                return Err(format!("{shown:?} is no record of Coz"));
            }
        }
        Ok(())
    }

    fn begin_run(&mut self, start_unix_ns: u64) {
        self.end_run();
        self.fragments.clear();
        self.points.clear();
        self.runs.push(CausalRun {
            command: Vec::new(),
            asked: AskedExperiments::default(),
            host: Host::default(),
            collector: "coz".to_owned(),
            start_unix_ns,
            duration_ns: 0,
            undelayed_ns: 0,
            end: RunEnd::Unknown,
            settings: ExperimentSettings::default(),
            images: Vec::new(),
            points: Vec::new(),
            fragments: Vec::new(),
            experiments: Vec::new(),
            warnings: Vec::new(),
        });
    }

    /// Returns the current run; records before the first `startup` make one.
    fn current_run(&mut self) -> &mut CausalRun {
        if self.runs.is_empty() {
            self.begin_run(0);
        }
        let last = self.runs.len() - 1;
        &mut self.runs[last]
    }

    fn fragment_index(&mut self, name: String) -> Result<u32, String> {
        if let Some(known) = self.fragments.get(&name) {
            return Ok(*known);
        }
        let run = self.current_run();
        let number = u32::try_from(run.fragments.len()).map_err(|_| "too many lines")?;
        run.fragments.push(Fragment {
            name: name.clone(),
            detail: String::new(),
            image: None,
            samples: 0,
            undelayed_samples: 0,
            waiting: None,
            copy_of: None,
        });
        self.fragments.insert(name, number);
        Ok(number)
    }

    fn add_visits(
        &mut self,
        name: Option<String>,
        count: Progress,
        visits: u64,
    ) -> Result<(), String> {
        // A throughput and a latency may have the same name.
        let name = required_field(name, "name")?;
        let latency = matches!(count, Progress::Latency { .. });
        let key = format!("{}{name}", if latency { "L" } else { "T" });
        let known = self.points.get(&key).copied();
        // Every experiment has room for all points before its last, so the number must not grow
        // without bound.
        if known.is_none() && self.points.len() >= MAX_POINTS {
            return Err(format!("more than {MAX_POINTS} progress points"));
        }
        let run = self.current_run();
        let position = known.unwrap_or_else(|| {
            run.points.push(ProgressPoint {
                name,
                counted_by: CountedBy::Source,
                visits: 0,
            });
            run.points.len() - 1
        });
        if let Some(point) = run.points.get_mut(position) {
            point.visits = point.visits.saturating_add(visits);
        }
        let experiment = run.experiments.last_mut();
        let experiment = experiment.ok_or("a progress point without an experiment before it")?;
        // Coz writes all points of an experiment; a skipped one has no visits.
        while experiment.counts.len() < position {
            experiment.counts.push(Progress::Visits(0));
        }
        match experiment.counts.get_mut(position) {
            Some(present) => *present = count,
            None => experiment.counts.push(count),
        }
        self.points.insert(key, position);
        Ok(())
    }

    /// Ends the current run.
    fn end_run(&mut self) {
        let (latency, runtime) = (self.latency, self.runtime.take());
        self.latency = false;
        let Some(run) = self.runs.last_mut() else {
            return;
        };
        let durations = run.experiments.iter().map(|e| e.duration_ns);
        run.duration_ns = runtime.unwrap_or_else(|| durations.fold(0, u64::saturating_add));
        if latency {
            run.warnings.push(
                "latencies are rough: Coz wrote how many were in flight at the end of each experiment, \
                 not the average over it"
                    .to_owned(),
            );
        }
    }

    fn finish_profile(mut self) -> CausalProfile {
        self.end_run();
        // A program that only started and ended has no results.
        self.runs.retain(|run| !run.fragments.is_empty());
        CausalProfile { runs: self.runs }
    }
}

fn required_field<T>(field: Option<T>, name: &str) -> Result<T, String> {
    field.ok_or_else(|| format!("no {name}"))
}

/// Writes a causal profile as Coz does.
///
/// # Errors
/// [`WriteError::Io`].
pub fn write_coz(
    profile: &CausalProfile,
    form: CozForm,
    out: &mut (impl Write + ?Sized),
) -> Result<(), WriteError> {
    let mut put = |record: CozRecord| -> std::io::Result<()> {
        match form {
            CozForm::Tabbed => write_tabbed_record(&record, out),
            CozForm::JsonLines => {
                serde_json::to_writer(&mut *out, &record)?;
                writeln!(out)
            }
        }
    };
    for run in &profile.runs {
        write_run(run, &mut put).map_err(WriteError::wrap_io("Coz"))?;
    }
    Ok(())
}

fn write_run(
    run: &CausalRun,
    put: &mut impl FnMut(CozRecord) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let record = |kind: &str| CozRecord {
        kind: kind.to_owned(),
        ..CozRecord::default()
    };
    put(CozRecord {
        time: Some(run.start_unix_ns),
        ..record("startup")
    })?;
    for experiment in &run.experiments {
        let Some(fragment) = run.fragments.get(experiment.fragment as usize) else {
            continue;
        };
        put(CozRecord {
            selected: Some(fragment_name(fragment)),
            speedup: Some(experiment.speedup),
            duration: Some(experiment.effective_ns().into()),
            selected_samples: Some(experiment.samples),
            ..record("experiment")
        })?;
        for (point, count) in run.points.iter().zip(&experiment.counts) {
            let name = Some(printable_name(&point.name));
            put(match *count {
                Progress::Visits(visits) => CozRecord {
                    name,
                    delta: Some(visits),
                    ..record("throughput-point")
                },
                Progress::Latency {
                    arrivals,
                    departures,
                    in_flight,
                } => CozRecord {
                    name,
                    arrivals: Some(arrivals),
                    departures: Some(departures),
                    difference: Some(in_flight),
                    ..record("latency-point")
                },
            })?;
        }
    }
    for fragment in run.fragments.iter().filter(|f| f.samples > 0) {
        put(CozRecord {
            location: Some(fragment_name(fragment)),
            count: Some(fragment.samples),
            ..record("samples")
        })?;
    }
    put(CozRecord {
        time: Some(run.duration_ns),
        ..record("runtime")
    })
}

fn write_tabbed_record(record: &CozRecord, out: &mut (impl Write + ?Sized)) -> std::io::Result<()> {
    write!(out, "{}", record.kind)?;
    let text = |value: &Option<String>| value.clone();
    let whole = |value: Option<u64>| value.map(|value| value.to_string());
    let fields = [
        ("time", whole(record.time)),
        ("selected", text(&record.selected)),
        (
            "speedup",
            record.speedup.map(|speedup| format!("{speedup:.2}")),
        ),
        (
            "duration",
            record.duration.map(|duration| duration.to_string()),
        ),
        ("selected-samples", whole(record.selected_samples)),
        ("name", text(&record.name)),
        ("delta", whole(record.delta)),
        ("arrivals", whole(record.arrivals)),
        ("departures", whole(record.departures)),
        (
            "difference",
            record.difference.map(|many| format!("{many:.0}")),
        ),
        ("location", text(&record.location)),
        ("count", whole(record.count)),
    ];
    for (key, value) in fields {
        if let Some(value) = value {
            write!(out, "\t{key}={value}")?;
        }
    }
    writeln!(out)
}

/// Returns the name of a fragment; its waits have another one.
fn fragment_name(fragment: &Fragment) -> String {
    let name = printable_name(&fragment.name);
    if fragment.waiting.is_some() {
        format!("{name} (waiting)")
    } else {
        name
    }
}

/// Returns a name without the separators of the form.
fn printable_name(name: &str) -> String {
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    name.chars().map(visible).collect()
}
