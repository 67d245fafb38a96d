//! Compared sample sets: their common rows, and the amount for each sample.

use crate::matching::{RowKey, SetRows, align_rows};
use crate::refusal::usage_refusal;
use crate::report::make_report;
use crate::selection::{CompareBy, CompareOptions, MeasurePer, ReportBy, SampleFilter};
use crate::source::{RecordingSource, event_named, name_locations, open_recording};
use crate::wanted::WantedSamples;
use analysis::variation::{PairScale, RowOrigin};
use profile::{Event, EventId, ImageKind, Location, Recording, SymbolTable, Target, Unit};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use store::Wanted;
use symbols::Detail;

/// The measure of amounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// A whole set.
    Run,
    /// All its samples.
    Samples,
    /// A second of its length.
    Time,
    /// A counted unit of work.
    Work,
}

impl Measure {
    /// Returns its name in the JSON form.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Samples => "samples",
            Self::Time => "time",
            Self::Work => "work",
        }
    }

    /// Returns it in words, to follow the event's name.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Run => "per run",
            Self::Samples => "as shares of all samples",
            Self::Time => "per second",
            Self::Work => "per unit of work",
        }
    }

    /// Returns the scale of the common factor of all rows.
    pub fn pair_scale(self) -> PairScale {
        match self {
            Self::Samples => PairScale::Shares,
            _ => PairScale::Absolute,
        }
    }
}

/// Sets, and their rows.
pub struct ComparedSets {
    /// The event that is compared.
    pub event: String,
    /// The unit of its amounts.
    pub unit: Unit,
    /// True if its amounts are time on a CPU, in nanoseconds.
    pub clock: bool,
    /// The measure.
    pub measure: Measure,
    /// The number of samples (or nanoseconds, by the unit) of each set.
    pub totals: Vec<u64>,
    /// The number of samples that one unit of the measure yields in each set.
    pub exposure: Vec<f64>,
    /// The rows, with their samples in each set.
    pub rows: Vec<(RowKey, Vec<u64>)>,
    /// Images of the kernel, and unknown images.
    kernel_images: BTreeSet<String>,
    /// True if damaged data are missing in one of them.
    pub is_incomplete: bool,
    /// Warnings for the reader: each a sentence.
    pub warnings: Vec<String>,
}

impl ComparedSets {
    /// Returns the origin of a row's code. A call path has no image, and counts as the program's.
    pub fn row_origin(&self, key: &RowKey) -> RowOrigin {
        let image = key.image.as_deref().unwrap_or(&key.name);
        if self.kernel_images.contains(image) {
            RowOrigin::Kernel
        } else {
            RowOrigin::Program
        }
    }
}

/// One set.
struct Set {
    event: Event,
    duration_ns: u64,
    /// True if it measured a command, from its start to its end.
    command: bool,
    counts: SetRows,
    kernel_images: BTreeSet<String>,
    is_incomplete: bool,
}

/// Reads the sets.
pub fn load_sets(paths: &[PathBuf], compare: &CompareOptions) -> anyhow::Result<ComparedSets> {
    if !compare.work.is_empty() && compare.work.len() != paths.len() {
        return Err(usage_refusal(format!(
            "--work has {} values for {} sets",
            compare.work.len(),
            paths.len()
        )));
    }
    let mut warnings = Vec::new();
    let mut sets: Vec<Set> = Vec::new();
    for path in paths {
        // The first event of the first set, unless one is named.
        let event = compare.filter.event.as_deref();
        let event = event.or(sets.first().map(|set| set.event.name.as_str()));
        let event = event.map(str::to_owned);
        sets.push(read_set(path, compare, event, &mut warnings)?);
    }
    let mut counts: Vec<SetRows> = sets
        .iter_mut()
        .map(|set| std::mem::take(&mut set.counts))
        .collect();
    let kernel_images = sets
        .iter_mut()
        .flat_map(|set| std::mem::take(&mut set.kernel_images))
        .collect();
    align_rows(&mut counts, &compare.maps);
    let rows = table_of(counts);
    let total = |set: usize| rows.iter().filter_map(|row| row.1.get(set)).sum();
    let totals: Vec<u64> = (0..sets.len()).map(total).collect();
    let measure = measure_of(compare, &sets);
    let numbered = sets.iter().zip(&totals).enumerate();
    let exposure = numbered.map(|(number, (set, total))| {
        // Number of samples for one unit of the event.
        let rate = match set.event.unit {
            Unit::Samples => 1.0 / (set.event.period.max(1) as f64 * set.event.multiplex_scale),
            Unit::Nanoseconds => 1.0,
        };
        match measure {
            Measure::Work => compare.work.get(number).unwrap_or(&1.0) * rate,
            Measure::Run => rate,
            Measure::Samples => *total as f64,
            Measure::Time => set.duration_ns as f64 / 1e9 * rate,
        }
    });
    let exposure: Vec<f64> = exposure.collect();
    let first = sets.first().map(|set| &set.event);
    let event = first.map_or_else(String::new, |event| event.name.clone());
    Ok(ComparedSets {
        clock: event.starts_with("cpu-clock") || event.starts_with("task-clock"),
        event,
        unit: first.map_or(Unit::Samples, |event| event.unit),
        measure,
        totals,
        exposure,
        rows,
        kernel_images,
        is_incomplete: sets.iter().any(|set| set.is_incomplete),
        warnings,
    })
}

/// Returns the rows of all sets, with their samples in each.
fn table_of(sets: Vec<SetRows>) -> Vec<(RowKey, Vec<u64>)> {
    let count = sets.len();
    let mut rows: BTreeMap<RowKey, Vec<u64>> = BTreeMap::new();
    for (number, set) in sets.into_iter().enumerate() {
        for (key, count_here) in set {
            let counts = rows.entry(key).or_insert_with(|| vec![0; count]);
            if let Some(slot) = counts.get_mut(number) {
                *slot = count_here;
            }
        }
    }
    rows.into_iter().collect()
}

/// Returns the requested measure. Without a request, runs of commands are assumed to do the same
/// work, and other sets are compared by the second.
fn measure_of(compare: &CompareOptions, sets: &[Set]) -> Measure {
    let commands = sets.iter().all(|set| set.command);
    match compare.per {
        _ if !compare.work.is_empty() => Measure::Work,
        Some(MeasurePer::Run) => Measure::Run,
        Some(MeasurePer::Samples) => Measure::Samples,
        Some(MeasurePer::Time) => Measure::Time,
        None if commands => Measure::Run,
        None => Measure::Time,
    }
}

fn read_set(
    path: &Path,
    compare: &CompareOptions,
    event: Option<String>,
    warnings: &mut Vec<String>,
) -> anyhow::Result<Set> {
    let source = RecordingSource {
        path: Some(path.to_owned()),
        debug_dirs: compare.debug_dirs.clone(),
        ..RecordingSource::default()
    };
    let wanted = Wanted {
        processes: compare.filter.names_threads(),
        cgroups: compare.filter.cgroup.is_some(),
        ids: compare.filter.pid.is_some(),
        callers: compare.by == CompareBy::Path,
        threads: compare.filter.process.is_some(),
    };
    let opened = open_recording(&source, wanted)?;
    let is_incomplete = opened.is_incomplete();
    warnings.extend(opened.passed_over);
    let recording = opened.recording;
    if recording.events.is_empty() {
        anyhow::bail!("{}: the recording has no events", path.display());
    }
    let event = event_named(&recording, event.as_deref())?;
    let detail = match compare.by {
        CompareBy::Line => Detail::Lines,
        _ => Detail::Procedures,
    };
    let frames = recording.stacks.frames().iter().map(|f| f.location);
    let leaves = recording
        .samples
        .iter()
        .map(|s| recording.stacks.frame(s.stack).location);
    let locations: Vec<Location> = match compare.by {
        CompareBy::Image if compare.filter.procedure.is_none() => Vec::new(),
        CompareBy::Path => frames.collect(),
        _ => leaves.collect(),
    };
    let resolved = name_locations(&recording, locations, detail, &source);
    let mut note = |text: String| {
        let text = format!("{}: {text}", path.display());
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    };
    recording.problems().cloned().for_each(&mut note);
    resolved
        .warnings
        .iter()
        .map(ToString::to_string)
        .for_each(&mut note);
    let filter = &compare.filter;
    let counts = match compare.by {
        CompareBy::Path => by_path(&recording, &resolved.table, filter, event),
        CompareBy::Image => by_row(&recording, &resolved.table, ReportBy::Image, filter, event),
        CompareBy::Procedure => by_row(
            &recording,
            &resolved.table,
            ReportBy::Procedure,
            filter,
            event,
        ),
        CompareBy::Line => by_row(&recording, &resolved.table, ReportBy::Line, filter, event),
    };
    Ok(Set {
        event: recording.event(event).clone(),
        duration_ns: recording.duration_ns,
        command: matches!(recording.target, Target::Command(_)),
        counts,
        kernel_images: kernel_images(&recording),
        is_incomplete,
    })
}

fn kernel_images(recording: &Recording) -> BTreeSet<String> {
    use ImageKind::{Kernel, KernelModule, Unknown};
    let images = recording.images.iter();
    let noisy = images.filter(|image| matches!(image.kind, Kernel | KernelModule | Unknown));
    noisy.map(|image| without_pid(image.path.clone())).collect()
}

fn by_row(
    recording: &Recording,
    table: &SymbolTable,
    by: ReportBy,
    filter: &SampleFilter,
    event: EventId,
) -> HashMap<RowKey, u64> {
    let name = Some(recording.event(event).name.clone());
    let filter = SampleFilter {
        event: name,
        ..filter.clone()
    };
    let scale = match recording.event(event).unit {
        Unit::Samples => recording.event(event).multiplex_scale,
        Unit::Nanoseconds => 1.0,
    };
    let mut counts = HashMap::new();
    for row in make_report(recording, table, by, &filter, event).rows {
        let amount = row.amounts.first().copied().unwrap_or(0.0);
        let key = RowKey {
            name: without_pid(row.name),
            image: row.image.map(without_pid),
            detail: row.detail,
        };
        let count = (amount / scale).round() as u64;
        if count > 0 {
            *counts.entry(key).or_insert(0) += count;
        }
    }
    counts
}

/// Sums by the procedures on the stack, outermost first, as in flame graphs.
fn by_path(
    recording: &Recording,
    table: &SymbolTable,
    filter: &SampleFilter,
    event: EventId,
) -> HashMap<RowKey, u64> {
    let wanted = WantedSamples::new(recording, table, filter);
    let mut counts = HashMap::new();
    for sample in &recording.samples {
        if sample.event != event || !wanted.has_sample(sample) {
            continue;
        }
        let mut frames: Vec<String> = recording
            .stacks
            .locations(sample.stack)
            .map(|location| match table.procedure(location) {
                Some(procedure) => procedure.name.replace(';', ":"),
                None => format!(
                    "[{}]",
                    without_pid(recording.image(location.image).path.clone())
                ),
            })
            .collect();
        frames.push(recording.names.get(sample.process).replace(';', ":"));
        frames.reverse();
        let key = RowKey {
            name: frames.join(";"),
            image: None,
            detail: None,
        };
        *counts.entry(key).or_insert(0) += sample.weight;
    }
    let weight = recording.event(event).sample_weight();
    for count in counts.values_mut() {
        *count = (*count as f64 / weight).round() as u64;
    }
    counts
}

/// Returns a name without its process id: `[anon 1234]` and `[jit 1234]` are the same in another
/// process.
fn without_pid(name: String) -> String {
    for kind in ["[anon ", "[jit "] {
        if name.starts_with(kind) {
            return format!("{}]", kind.trim_end());
        }
    }
    name
}
