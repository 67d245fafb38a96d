//! Where `vitalfew top` has its samples from: it samples itself, or asks the running daemon.

use super::args::Top;
use super::known_names::KnownNames;
use super::rows::TopSnapshot;
use profile::{CallGraph, Recording};
use results::{OpenedRecording, RecordingSource, open_recording};
use sampler::{Options, Separation, TargetSpec};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use store::Wanted;

/// How often it is looked whether to end.
const PATIENCE: Duration = Duration::from_millis(50);

/// Sends what was sampled, again and again, until nobody listens or `stop` is true.
pub fn send_snapshots(
    args: &Top,
    stop: &AtomicBool,
    send: &Sender<anyhow::Result<Arc<TopSnapshot>>>,
) {
    let mut before = None;
    let mut names = KnownNames::default();
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        let snapshot = take_snapshot(args, stop, &mut names, before.as_ref());
        let failed = snapshot.is_err();
        before = snapshot.as_ref().ok().cloned();
        if send.send(snapshot).is_err() || failed {
            return;
        }
        // Sampling takes the time itself; a daemon's answer comes at once.
        while begin.elapsed() < args.every && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(PATIENCE);
        }
    }
}

/// Takes one. Of a daemon, what came since the one before.
///
/// # Errors
/// If nothing can be sampled, or no daemon answers.
pub fn take_snapshot(
    args: &Top,
    stop: &AtomicBool,
    names: &mut KnownNames,
    before: Option<&Arc<TopSnapshot>>,
) -> anyhow::Result<Arc<TopSnapshot>> {
    let (recording, source) = match &args.db {
        Some(database) => ask_daemon(database)?,
        None => (sample_once(args, stop)?, RecordingSource::default()),
    };
    let table = names.name_all(&recording, &source);
    // A new epoch does not go on from the last one.
    let before = before.filter(|before| {
        args.db.is_some() && before.recording.start_unix_ns == recording.start_unix_ns
    });
    let before = before.map(|before| {
        Arc::new(TopSnapshot {
            recording: before.recording.clone(),
            table: before.table.clone(),
            before: None,
        })
    });
    Ok(Arc::new(TopSnapshot {
        recording,
        table,
        before,
    }))
}

fn sample_once(args: &Top, stop: &AtomicBool) -> anyhow::Result<Recording> {
    let target = args.pid.map_or(TargetSpec::Machine, TargetSpec::Process);
    let mut options = Options::new(target);
    options.call_graph = CallGraph::Tables;
    options.table_directory = crate::cache::cache_directory().map(|cache| cache.join("unwind"));
    options.off_cpu = true;
    options.ask_runtimes = false;
    options.separation = Separation::Threads;
    options.duration = Some(args.every);
    let mut recording = sampler::record(&options, stop, &mut |_| {})?.recording;
    leave_out_process(&mut recording, std::process::id());
    Ok(recording)
}

/// Leaves out what a process ran and waited for: without us, who load the kernel's programs for each table, it would not have.
pub(super) fn leave_out_process(recording: &mut Recording, process: u32) {
    let samples = &mut recording.samples;
    samples.retain(|sample| sample.pid != Some(process));
    recording.threads.retain(|thread| thread.pid != process);
}

fn ask_daemon(database: &Path) -> anyhow::Result<(Recording, RecordingSource)> {
    crate::commands::daemon::flush_daemon(database)?;
    let source = RecordingSource {
        path: Some(database.to_owned()),
        ..RecordingSource::default()
    };
    let opened: OpenedRecording = open_recording(&source, Wanted::ALL)?;
    Ok((opened.recording, source))
}
