//! Finding and opening the recording that a command is about.

use crate::args::{Chosen, Source};
use crate::exit::{self, Coded, INCONCLUSIVE, USAGE};
use crate::screen::warn_user;
use anyhow::Context;
use profile::{EventId, ImageId, Location, Recording};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use store::{Database, Epoch, Opened, Wanted};
use symbols::{Detail, Resolved, Warning};

/// Opens the recording: a file, an epoch, the last epoch of a database. Of a database it has at least
/// what is wanted.
pub fn open(source: &Source, wanted: Wanted) -> anyhow::Result<Recording> {
    let default = store::default_database();
    let path = source.path.as_deref().unwrap_or(&default);
    if source.path.is_none() && !default.exists() {
        return Err(nothing_recorded(&default).into());
    }
    let some = source.epoch.is_some() || source.host.is_some();
    let opened = match store::open(path) {
        Err(store::Error::NotARecording { .. }) if path.is_file() && !some => {
            return import(path);
        }
        opened => opened?,
    };
    match opened {
        Opened::Recording(_) if some => Err(Coded {
            code: USAGE,
            message: format!(
                "{} is one recording: --epoch and --host choose of a database",
                path.display()
            ),
        }
        .into()),
        Opened::Recording(recording) => {
            note_left_out(&recording);
            Ok(*recording)
        }
        Opened::Database(database) if some => {
            let range = source.epoch.clone().unwrap_or_default();
            let mut epochs = database.select(&range, source.host.as_deref())?;
            if source.epoch.is_none() {
                // Without a time, the last one, as without a host.
                let last = epochs.iter().rposition(|epoch| epoch.summary.is_ok());
                epochs.drain(..last.unwrap_or(0));
                epochs.truncate(1);
            }
            if epochs.is_empty() {
                return Err(no_epoch(database.path()).into());
            }
            Ok(read(&epochs, wanted)?)
        }
        Opened::Database(database) => latest(&database, wanted),
    }
}

/// Reads another tool's profile as a recording without processes, addresses and time.
fn import(path: &Path) -> anyhow::Result<Recording> {
    let profile = formats::read::read(path, &formats::read::ReadOptions::default())?;
    Ok(formats::read::to_recording(&profile))
}

/// Lets the exit code say that damaged data are not in a recording.
fn note_left_out(recording: &Recording) {
    if recording.warnings.iter().any(|w| store::is_left_out(w)) {
        exit::note_left_out();
    }
}

/// Reads epochs together. What an open one has not merged yet has no names for the kernel's
/// procedures; the kernel that runs now gives them, if it is the same.
pub fn read(epochs: &[Epoch], wanted: Wanted) -> Result<Recording, store::Error> {
    let mut recording = store::read_all(epochs, wanted)?;
    note_left_out(&recording);
    if epochs.iter().any(|epoch| epoch.open) {
        sampler::name_kernel(&mut recording);
    }
    Ok(recording)
}

/// Whether a source is a database.
pub fn is_database(source: &Source) -> bool {
    let default = store::default_database();
    let path = source.path.as_deref().unwrap_or(&default);
    path.is_dir() && Database::open(path).is_ok()
}

/// Opens what can be read of each host, as [`open`] does what is of all.
pub fn open_by_host(source: &Source, wanted: Wanted) -> anyhow::Result<Vec<Recording>> {
    if !is_database(source) {
        return Ok(vec![open(source, wanted)?]);
    }
    let default = store::default_database();
    let path = source.path.as_deref().unwrap_or(&default);
    let range = source.epoch.clone().unwrap_or_default();
    let mut hosts: BTreeMap<String, Vec<Epoch>> = BTreeMap::new();
    for epoch in Database::open(path)?.select(&range, source.host.as_deref())? {
        let host = epoch.summary.as_ref().map(|summary| summary.host.clone());
        hosts
            .entry(host.unwrap_or_default())
            .or_default()
            .push(epoch);
    }
    if hosts.is_empty() {
        return Err(no_epoch(path).into());
    }
    // What cannot be read is named where all are read together.
    let of_host = |epochs: &Vec<Epoch>| read(epochs, wanted).ok();
    Ok(hosts.values().filter_map(of_host).collect())
}

/// Opens a database and chooses epochs of it, of which there is at least one.
pub fn choose(chosen: &Chosen) -> anyhow::Result<Vec<Epoch>> {
    let path = chosen.db.clone().unwrap_or_else(store::default_database);
    if chosen.db.is_none() && !path.exists() {
        return Err(nothing_recorded(&path).into());
    }
    if path.is_file() {
        return Err(Coded {
            code: USAGE,
            message: format!(
                "{} is a file, not a database: vitalfew report and vitalfew bottlenecks read files",
                path.display()
            ),
        }
        .into());
    }
    let database = Database::open(&path)?;
    let epochs = database.select(&chosen.epoch, chosen.host.as_deref())?;
    if epochs.is_empty() {
        return Err(no_epoch(&path).into());
    }
    Ok(epochs)
}

fn no_epoch(path: &Path) -> Coded {
    Coded {
        code: INCONCLUSIVE,
        message: format!("{} has no such epoch", path.display()),
    }
}

fn latest(database: &Database, wanted: Wanted) -> anyhow::Result<Recording> {
    let (epoch, damaged) = database.latest()?;
    for error in &damaged {
        exit::note_left_out();
        warn_user(&store::left_out(error));
    }
    let epoch = epoch.ok_or_else(|| nothing_recorded(database.path()))?;
    let recording = read(std::slice::from_ref(&epoch), wanted);
    recording.with_context(|| format!("the last recording, {}", epoch.path.display()))
}

fn nothing_recorded(path: &Path) -> Coded {
    Coded {
        code: INCONCLUSIVE,
        message: format!(
            "nothing has been recorded in {}; record something: vitalfew record -- COMMAND",
            path.display()
        ),
    }
}

/// The event of this name; the first one without a name.
pub fn event(recording: &Recording, name: Option<&str>) -> anyhow::Result<EventId> {
    let Some(name) = name else {
        return Ok(EventId(0));
    };
    let names: Vec<&str> = recording.events.iter().map(|e| e.name.as_str()).collect();
    match names.iter().position(|n| *n == name) {
        Some(index) => Ok(EventId(index as u16)),
        None => Err(Coded {
            code: USAGE,
            message: format!(
                "the recording has no event '{name}'; it has: {}",
                names.join(", ")
            ),
        }
        .into()),
    }
}

/// Names of the locations.
pub fn symbolize(
    recording: &Recording,
    locations: impl IntoIterator<Item = Location>,
    detail: Detail,
    source: &Source,
) -> Resolved {
    let options = crate::kept::symbol_options(source);
    symbols::resolve(recording, locations, detail, &options)
}

/// Images below this share of the samples are warned of together.
const WORTH_A_WARNING: f64 = 0.01;

/// Says [`gaps`].
pub fn warn_of_gaps(recording: &Recording, event: EventId, resolved: &Resolved, all: bool) {
    for gap in gaps(recording, Some(event), resolved, all) {
        warn_user(&gap);
    }
}

/// What is missing to name more: image by image for those that matter (with `all` for each), the rest in a
/// line. Images matter by their share of the event's weight, or of the samples of all events.
pub fn gaps(
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
    let mut gaps: Vec<String> = shown.iter().map(|warning| warning.to_string()).collect();
    if !rest.is_empty() {
        let images: BTreeSet<ImageId> = rest.iter().map(|warning| warning.image).collect();
        let weight: u64 = images.iter().map(|image| weight[image.0 as usize]).sum();
        gaps.push(format!(
            "{} more image{} lack{} symbols, with {:.2}% of the samples in all; report --all says which",
            images.len(),
            if images.len() == 1 { "" } else { "s" },
            if images.len() == 1 { "s" } else { "" },
            weight as f64 / total * 100.0
        ));
    }
    gaps
}
