//! Source of the samples of `vitalfew top`: it samples itself, or asks the running daemon.

use super::args::Top;
use super::known_names::{KnownNames, UnnamedPlaces};
use super::rows::TopSnapshot;
use daemon::Request;
use orchestration::{make_tables_later, table_directory};
use profile::{CallGraph, Recording};
use results::{OpenedRecording, RecordingSource, open_recording};
use sampler::{Options, Separation, TargetSpec};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};
use store::Wanted;

/// Time between two checks of the request to end.
const PATIENCE: Duration = Duration::from_millis(50);
/// Maximum length of the first table, for which people wait.
const FIRST: Duration = Duration::from_millis(500);
/// Longest time for reading names from files before a table with the names known by then is shown.
const NAMING: Duration = Duration::from_millis(500);

/// A recording, with the location of its files.
pub struct TopSamples {
    recording: Arc<Recording>,
    source: RecordingSource,
}

/// Sends samples repeatedly, until the receiver is gone or `stop` is true.
pub fn send_samples(args: &Top, stop: &AtomicBool, send: &Sender<anyhow::Result<TopSamples>>) {
    let mut every = args.every.min(FIRST);
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        let samples = take_samples(args, every, stop);
        let failed = samples.is_err();
        if send.send(samples).is_err() || failed {
            return;
        }
        // Sampling takes the time itself; a daemon answers at once.
        while begin.elapsed() < every && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(PATIENCE);
        }
        every = args.every;
    }
}

/// Sends snapshots until the receiver is gone: at once with the known names, and again as files are
/// read for more. Reading the names of a whole machine's programs takes longer than the time
/// between two tables.
pub fn send_snapshots(
    receive: &Receiver<anyhow::Result<TopSamples>>,
    send: &Sender<anyhow::Result<Arc<TopSnapshot>>>,
) {
    let mut names = KnownNames::default();
    let mut shown: Option<TopSamples> = None;
    let mut before: Option<Arc<Recording>> = None;
    let mut is_named = true;
    loop {
        let mut newer: Vec<_> = receive.try_iter().collect();
        if is_named && newer.is_empty() {
            newer.extend(receive.recv());
        }
        match newer.pop() {
            Some(Ok(samples)) => {
                before = shown.map(|shown| shown.recording);
                shown = Some(samples);
            }
            Some(Err(error)) => {
                // If the receiver is gone, the error is not needed either.
                let _ = send.send(Err(error));
                return;
            }
            None if is_named => return,
            None => {}
        }
        let Some(samples) = &shown else { return };
        let unnamed = names.find_unnamed(&samples.recording);
        is_named = unnamed.is_empty();
        let snapshot = make_snapshot(samples, before.as_ref(), &names, is_named);
        if send.send(Ok(Arc::new(snapshot))).is_err() {
            return;
        }
        name_some(&mut names, samples, unnamed);
    }
}

/// Names some of these places, in their order.
fn name_some(names: &mut KnownNames, samples: &TopSamples, unnamed: Vec<UnnamedPlaces>) {
    let begin = Instant::now();
    for places in unnamed {
        names.name_places(&samples.recording, &samples.source, places);
        if begin.elapsed() > NAMING {
            return;
        }
    }
}

/// Makes a table. For a daemon, it covers the samples since the previous recording: a new epoch
/// does not continue the last one.
fn make_snapshot(
    samples: &TopSamples,
    before: Option<&Arc<Recording>>,
    names: &KnownNames,
    is_named: bool,
) -> TopSnapshot {
    let TopSamples { recording, source } = samples;
    let goes_on = source.path.is_some();
    let before = before.filter(|before| goes_on && before.start_unix_ns == recording.start_unix_ns);
    let before = before.map(|before| {
        Arc::new(TopSnapshot {
            recording: Arc::clone(before),
            table: names.names_of(before, source),
            before: None,
            is_named,
        })
    });
    TopSnapshot {
        recording: Arc::clone(recording),
        table: names.names_of(recording, source),
        before,
        is_named,
    }
}

/// Takes one table with all names.
///
/// # Errors
/// If nothing can be sampled, or no daemon answers.
pub fn take_snapshot(args: &Top, stop: &AtomicBool) -> anyhow::Result<TopSnapshot> {
    let mut samples = take_samples(args, args.every, stop)?;
    let mut before = None;
    if args.db.is_some() {
        // A daemon's rate follows from two answers.
        std::thread::sleep(args.every);
        before = Some(samples.recording);
        samples = take_samples(args, args.every, stop)?;
    }
    let mut names = KnownNames::default();
    for recording in before.iter().chain([&samples.recording]) {
        names.name_all(recording, &samples.source);
    }
    Ok(make_snapshot(&samples, before.as_ref(), &names, true))
}

fn take_samples(args: &Top, every: Duration, stop: &AtomicBool) -> anyhow::Result<TopSamples> {
    let (recording, source) = match &args.db {
        Some(database) => ask_daemon(database)?,
        None => (sample_once(args, every, stop)?, RecordingSource::default()),
    };
    let recording = Arc::new(recording);
    Ok(TopSamples { recording, source })
}

fn sample_once(args: &Top, every: Duration, stop: &AtomicBool) -> anyhow::Result<Recording> {
    let target = args.pid.map_or(TargetSpec::Machine, TargetSpec::Process);
    let mut options = Options::new(target);
    options.call_graph = CallGraph::Tables;
    options.table_directory = table_directory();
    options.off_cpu = true;
    options.as_permitted = true;
    options.ask_runtimes = false;
    options.separation = Separation::Threads;
    options.duration = Some(every);
    let outcome = sampler::record(&options, stop, &mut |_| {})?;
    make_tables_later(&outcome.without_tables);
    let mut recording = outcome.recording;
    leave_out_process(&mut recording, std::process::id());
    Ok(recording)
}

/// Removes the samples and threads of a process: here of this one, which loads the kernel's
/// programs for each table.
pub(super) fn leave_out_process(recording: &mut Recording, process: u32) {
    let samples = &mut recording.samples;
    samples.retain(|sample| sample.pid != Some(process));
    recording.threads.retain(|thread| thread.pid != process);
}

fn ask_daemon(database: &Path) -> anyhow::Result<(Recording, RecordingSource)> {
    daemon::ask_daemon(database, None, Request::Flush)?;
    let source = RecordingSource {
        // What a daemon counts now is in its spool, if the database is in a bucket.
        path: Some(store::written_database(database)),
        ..RecordingSource::default()
    };
    let opened: OpenedRecording = open_recording(&source, Wanted::ALL)?;
    Ok((opened.recording, source))
}
