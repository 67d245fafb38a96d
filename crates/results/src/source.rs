//! Lookup of the recording that a command reads.

use crate::kept::symbol_options;
use crate::refusal::{inconclusive_refusal, usage_refusal};
use crate::result_kind::ResultKind;
use anyhow::Context;
use profile::{EventId, ImageId, Location, Recording};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use store::{Database, Epoch, Opened, TimeRange, Wanted};
use symbols::{Detail, Resolved, Warning};

/// Location of a recording, and the selected part of it.
#[derive(Clone, Debug, Default)]
pub struct RecordingSource {
    /// A recording's file, an epoch's directory or a database; `None` for the default database.
    pub path: Option<PathBuf>,
    /// Selects the epochs of a database that began in this range; `None` for the last one.
    pub epoch: Option<TimeRange>,
    /// Selects the host whose epochs of a database are read.
    pub host: Option<String>,
    /// Directories with further debug information, laid out like `/usr/lib/debug`.
    pub debug_dirs: Vec<PathBuf>,
}

impl RecordingSource {
    /// Returns the path, or that of the default database.
    pub fn path_or_default(&self) -> PathBuf {
        self.path.clone().unwrap_or_else(store::default_database)
    }

    /// Returns whether it is a database.
    pub fn is_database(&self) -> bool {
        let path = self.path_or_default();
        path.is_dir() && Database::open(&path).is_ok()
    }
}

/// A recording, and the damaged ones that were skipped for it.
pub struct OpenedRecording {
    /// The recording.
    pub recording: Recording,
    /// Skipped newer recordings that are damaged: a sentence for each.
    pub passed_over: Vec<String>,
}

impl OpenedRecording {
    /// Returns whether damaged data are missing in it.
    pub fn is_incomplete(&self) -> bool {
        let warnings = self.recording.warnings.iter();
        let mut left_out = warnings.filter(|warning| store::is_left_out(warning));
        !self.passed_over.is_empty() || left_out.next().is_some()
    }
}

impl From<Recording> for OpenedRecording {
    fn from(recording: Recording) -> Self {
        Self {
            recording,
            passed_over: Vec::new(),
        }
    }
}

/// Opens the recording: a file, an epoch, the last epoch of a database. From a database, it reads
/// at least the `wanted` parts.
///
/// # Errors
/// If there is none, it is damaged or no recording, or its source is contradictory.
pub fn open_recording(source: &RecordingSource, wanted: Wanted) -> anyhow::Result<OpenedRecording> {
    let path = source.path_or_default();
    if source.path.is_none() && !path.exists() {
        return Err(nothing_recorded(&path));
    }
    let some = source.epoch.is_some() || source.host.is_some();
    let opened = match store::open_path(&path) {
        Err(store::StoreError::NotARecording { .. }) if path.is_file() && !some => {
            return Ok(import_profile(&path)?.into());
        }
        opened => opened?,
    };
    match opened {
        Opened::Recording(_) if some => Err(usage_refusal(format!(
            "{} is one recording: --epoch and --host select epochs of a database",
            path.display()
        ))),
        Opened::Recording(recording) => Ok((*recording).into()),
        Opened::Database(database) if some => {
            let range = source.epoch.clone().unwrap_or_default();
            let mut epochs = database.select_epochs(&range, source.host.as_deref())?;
            if source.epoch.is_none() {
                // Without a time, the last epoch, as without a host.
                let last = epochs.iter().rposition(|epoch| epoch.summary.is_ok());
                epochs.drain(..last.unwrap_or(0));
                epochs.truncate(1);
            }
            let epochs = drained_epochs(epochs, database.path())?;
            Ok(read_epochs(&epochs, wanted)?.into())
        }
        Opened::Database(database) => latest_recording(&database, wanted),
    }
}

/// Reads another tool's profile as a recording without processes, addresses and time.
fn import_profile(path: &Path) -> anyhow::Result<Recording> {
    ResultKind::Recording.expect_file(path)?;
    let profile = formats::read::read_profile(path, &formats::read::ReadOptions::default())?;
    Ok(formats::read::to_recording(&profile))
}

/// Reads epochs together. Unmerged data of an open epoch have no names for the kernel's procedures;
/// the running kernel gives them, if it is the same.
///
/// # Errors
/// If none of them can be read.
pub fn read_epochs(epochs: &[Epoch], wanted: Wanted) -> Result<Recording, store::StoreError> {
    let mut recording = store::read_all(epochs, wanted)?;
    if epochs.iter().any(|epoch| epoch.open) {
        sampler::name_kernel(&mut recording);
    }
    Ok(recording)
}

/// Opens the readable recordings of each host separately, while [`open_recording`] joins those of
/// all hosts.
///
/// # Errors
/// If there is none.
pub fn open_by_host(
    source: &RecordingSource,
    wanted: Wanted,
) -> anyhow::Result<Vec<OpenedRecording>> {
    if !source.is_database() {
        return Ok(vec![open_recording(source, wanted)?]);
    }
    let path = source.path_or_default();
    let range = source.epoch.clone().unwrap_or_default();
    let mut hosts: BTreeMap<String, Vec<Epoch>> = BTreeMap::new();
    for epoch in Database::open(&path)?.select_epochs(&range, source.host.as_deref())? {
        let host = epoch.summary.as_ref().map(|summary| summary.host.clone());
        hosts
            .entry(host.unwrap_or_default())
            .or_default()
            .push(epoch);
    }
    if hosts.is_empty() {
        return Err(no_epoch(&path));
    }
    // Unreadable epochs are reported where all are read together.
    let of_host = |epochs: &Vec<Epoch>| read_epochs(epochs, wanted).ok();
    Ok(hosts
        .values()
        .filter_map(of_host)
        .map(OpenedRecording::from)
        .collect())
}

/// Opens the default database for writing, before anything is measured.
///
/// # Errors
/// If it cannot be written to.
pub fn create_database() -> anyhow::Result<Database> {
    let path = store::default_database();
    let create = || {
        let database = Database::create(&path)?;
        database.check_bucket()?;
        store::create_spool(&store::written_database(&path), &path)?;
        Ok::<_, store::StoreError>(database)
    };
    create().context("no place for results (--db DIR or $VITALFEW_DB names another)")
}

/// Opens the default database and chooses epochs of it, at least one.
///
/// # Errors
/// If there is no such database or epoch.
pub fn choose_epochs(range: &TimeRange, host: Option<&str>) -> anyhow::Result<Vec<Epoch>> {
    let path = store::default_database();
    if !path.exists() {
        return Err(nothing_recorded(&path));
    }
    if path.is_file() {
        ResultKind::Foreign.expect_file(&path)?;
        return Err(usage_refusal(format!(
            "{} is a file, not a database: vitalfew report and vitalfew bottlenecks read files",
            path.display()
        )));
    }
    let epochs = Database::open(&path)?.select_epochs(range, host)?;
    if epochs.is_empty() {
        return Err(no_epoch(&path));
    }
    Ok(epochs)
}

/// Returns the epochs of a database that contain data, at least one.
///
/// # Errors
/// If there is no epoch, or a daemon has only begun one.
pub fn drained_epochs(mut epochs: Vec<Epoch>, database: &Path) -> anyhow::Result<Vec<Epoch>> {
    if epochs.is_empty() {
        return Err(no_epoch(database));
    }
    epochs.retain(|epoch| !epoch.is_empty());
    if epochs.is_empty() {
        Err(not_drained(database))
    } else {
        Ok(epochs)
    }
}

fn not_drained(database: &Path) -> anyhow::Error {
    inconclusive_refusal(format!(
        "{} has only an epoch that a daemon has begun and not written to yet: {}",
        database.display(),
        undrained_advice(database)
    ))
}

/// Returns where the samples of an epoch without data are, and the command that stores them.
pub fn undrained_advice(database: &Path) -> String {
    format!(
        "its samples are still in the kernel; vitalfew daemon flush --db {} writes them now",
        database.display()
    )
}

fn no_epoch(path: &Path) -> anyhow::Error {
    inconclusive_refusal(format!("{} has no such epoch", path.display()))
}

fn latest_recording(database: &Database, wanted: Wanted) -> anyhow::Result<OpenedRecording> {
    let (epoch, damaged) = database.latest_epoch()?;
    let Some(epoch) = epoch else {
        // If the others are only damaged, no daemon would write data soon.
        return Err(if damaged.is_empty() {
            why_nothing_recorded(database.path())
        } else {
            nothing_recorded(database.path())
        });
    };
    let recording = read_epochs(std::slice::from_ref(&epoch), wanted);
    let recording =
        recording.with_context(|| format!("the last recording, {}", epoch.path.display()))?;
    Ok(OpenedRecording {
        recording,
        passed_over: damaged.iter().map(store::left_out).collect(),
    })
}

/// Maximum number of epochs that [`open_latest_epochs`] reads.
const MOST_EPOCHS: usize = 24;

/// Opens the last epochs of the whole machine on one host, as a daemon writes them. The slice of
/// each sample is the position of its epoch. `None` if the last recording of the database has
/// another target, or is the only one of its kind.
///
/// # Errors
/// If none of them can be read.
pub fn open_latest_epochs(database: &Database) -> anyhow::Result<Option<(Recording, Vec<Epoch>)>> {
    let mut epochs = database.newest_epochs(MOST_EPOCHS)?;
    epochs.retain(|epoch| epoch.summary.is_ok());
    let kind = |epoch: &Epoch| {
        let summary = epoch.summary.as_ref().ok()?;
        let of_machine = summary.target == profile::Target::Machine;
        of_machine.then(|| (summary.host.clone(), summary.events.clone()))
    };
    let Some(last) = epochs.last().and_then(kind) else {
        return Ok(None);
    };
    let same = epochs.iter().rev().take(MOST_EPOCHS);
    let same = same.take_while(|epoch| kind(epoch).as_ref() == Some(&last));
    let first = epochs.len() - same.count();
    if epochs.len() - first < 2 {
        return Ok(None);
    }
    epochs.drain(..first);
    let mut recording = store::read_as_slices(&epochs)?;
    if epochs.iter().any(|epoch| epoch.open) {
        sampler::name_kernel(&mut recording);
    }
    Ok(Some((recording, epochs)))
}

/// Returns the reason that a database has no recording: nothing was recorded, or a daemon has not
/// written to it yet.
pub fn why_nothing_recorded(database: &Path) -> anyhow::Error {
    let epochs = Database::open(database).and_then(|opened| opened.epochs());
    if epochs.is_ok_and(|epochs| epochs.iter().any(Epoch::is_empty)) {
        not_drained(database)
    } else {
        nothing_recorded(database)
    }
}

fn nothing_recorded(path: &Path) -> anyhow::Error {
    inconclusive_refusal(format!(
        "nothing has been recorded in {}; record something: vitalfew record -- COMMAND",
        path.display()
    ))
}

/// Returns the event of this name; the first one without a name.
///
/// # Errors
/// If the recording has no such event.
pub fn event_named(recording: &Recording, name: Option<&str>) -> anyhow::Result<EventId> {
    let Some(name) = name else {
        return Ok(EventId(0));
    };
    let names: Vec<&str> = recording.events.iter().map(|e| e.name.as_str()).collect();
    match names.iter().position(|n| *n == name) {
        Some(index) => Ok(EventId(index as u16)),
        None => Err(usage_refusal(format!(
            "the recording has no event '{name}'; it has: {}",
            names.join(", ")
        ))),
    }
}

/// Names locations, by the debug information of a source.
pub fn name_locations(
    recording: &Recording,
    locations: impl IntoIterator<Item = Location>,
    detail: Detail,
    source: &RecordingSource,
) -> Resolved {
    let options = symbol_options(&source.path_or_default(), &source.debug_dirs);
    symbols::resolve(recording, locations, detail, &options)
}

/// Share of the samples below which images get a joint warning.
const WORTH_A_WARNING: f64 = 0.01;

/// Says what is missing to name more code: image by image for those that matter (with `all` for
/// each), the rest in one line if they matter together. Images matter by their share of the event's
/// weight, or of the samples of all events.
pub fn symbol_gaps(
    recording: &Recording,
    event: Option<EventId>,
    resolved: &Resolved,
    all: bool,
) -> Vec<String> {
    let mut weight = vec![0_u64; recording.images.len()];
    for sample in &recording.samples {
        let image = recording.stacks.frame(sample.stack).location.image;
        weight[image.0 as usize] += match event {
            None => sample.count,
            Some(event) if event == sample.event => sample.weight,
            Some(_) => 0,
        };
    }
    let total = weight.iter().sum::<u64>().max(1) as f64;
    let share = |warning: &Warning| weight[warning.image.0 as usize] as f64 / total;
    let (shown, rest): (Vec<_>, Vec<_>) = resolved
        .warnings
        .iter()
        .partition(|warning| all || share(warning) >= WORTH_A_WARNING);
    let mut gaps: Vec<String> = resolved.server_note.iter().cloned().collect();
    gaps.extend(shown.iter().map(|warning| warning.to_string()));
    let images: BTreeSet<ImageId> = rest.iter().map(|warning| warning.image).collect();
    let weight: u64 = images.iter().map(|image| weight[image.0 as usize]).sum();
    let share = weight as f64 / total;
    // A smaller share changes no visible row.
    if share >= WORTH_A_WARNING {
        gaps.push(format!(
            "{} more image{} lack{} symbols, with {:.2}% of the samples in all; report --all says which",
            images.len(),
            if images.len() == 1 { "" } else { "s" },
            if images.len() == 1 { "s" } else { "" },
            100.0 * share
        ));
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{CallGraph, Collector, Host, Target};

    fn host() -> Host {
        Host {
            name: "one".to_owned(),
            kernel: "6".to_owned(),
            machine: "x86_64".to_owned(),
            cpu_model: None,
            cpu_id: None,
            clock_hz: None,
            cpus: 2,
        }
    }

    #[test]
    fn samples_that_a_daemon_has_not_stored_are_still_in_the_kernel() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::create(directory.path()).unwrap();
        let nothing = || why_nothing_recorded(directory.path()).to_string();
        assert!(nothing().starts_with("nothing has been recorded"));
        let epoch = database.begin_epoch("one", 1_000_000_000).unwrap();
        assert!(nothing().contains("still in the kernel; vitalfew daemon flush --db"));
        drop(epoch);
    }

    #[test]
    fn the_last_epochs_of_the_machine_are_taken_together() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::create(directory.path()).unwrap();
        let mut seconds = 0;
        let mut add = |target: Target| {
            seconds += 10;
            let mut recording = Recording::new(host(), target, Collector::Bpf, CallGraph::None);
            recording.start_unix_ns = seconds * 1_000_000_000;
            recording.duration_ns = seconds * 1_000_000;
            database.write_recording(&recording).unwrap();
        };
        let taken = || {
            let latest = open_latest_epochs(&database).unwrap();
            latest.map(|(recording, epochs)| (recording.slice_ns, epochs.len()))
        };
        add(Target::Machine);
        add(Target::Command(vec!["app".to_owned()]));
        assert_eq!(taken(), None);
        add(Target::Machine);
        assert_eq!(taken(), None);
        add(Target::Machine);
        assert_eq!(taken(), Some((Some(40_000_000), 2)));
        for _ in 0..MOST_EPOCHS {
            add(Target::Machine);
        }
        assert_eq!(taken().map(|(_, epochs)| epochs), Some(MOST_EPOCHS));
    }
}
