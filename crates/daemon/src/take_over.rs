//! Takes over from earlier daemons: collectors that still count, and epochs that were not closed.

use crate::merge_queue::{MergeQueue, MergeTask};
use crate::wall_clock::unix_ns;
use sampler::{Continuous, LeftBehind};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use store::{Database, OpenEpoch};

/// A stopped collector with its name and pins, or the error that kept it from being stopped.
pub(crate) type StoppedCollector = (String, PathBuf, Result<LeftBehind, sampler::Error>);

/// Stops the collectors of earlier daemons and starts this one's counting, within less than a
/// period: no sample counts twice, whenever this process is killed.
pub(crate) fn relieve_collectors(
    left: Vec<(String, PathBuf)>,
    collecting: &mut Continuous<'_>,
) -> anyhow::Result<Vec<StoppedCollector>> {
    let opened = left.into_iter().map(|(name, directory)| {
        let left = LeftBehind::open(&directory);
        (name, directory, left)
    });
    let opened: Vec<StoppedCollector> = opened.collect();
    let halted = opened.iter().filter_map(|(_, _, left)| left.as_ref().ok());
    let halted: Vec<_> = halted.map(LeftBehind::halt_counting).collect();
    collecting.enable()?;
    halted.into_iter().collect::<Result<(), _>>()?;
    let stopped = opened.into_iter().map(|(name, directory, left)| {
        let left = left.and_then(|left| left.stop_programs().map(|()| left));
        (name, directory, left)
    });
    Ok(stopped.collect())
}

/// Continues the last epoch, if it is young enough; others are closed. Returns the epoch and its
/// start.
pub(crate) fn continue_epoch(
    database: &Database,
    host: &str,
    longest: Duration,
    open: &[OpenEpoch],
    merges: &mut MergeQueue,
) -> anyhow::Result<(OpenEpoch, Instant)> {
    let mut last = None;
    for epoch in open {
        epoch.remove_leftovers()?;
        if let Some(before) = last.replace(epoch) {
            merges.push_task(MergeTask::closing_epoch(before, 0));
        }
    }
    let age = |epoch: &OpenEpoch| {
        let epochs = database.epochs().unwrap_or_default();
        let same = epochs.into_iter().find(|e| e.path == epoch.path());
        let start = same.and_then(|e| Some(e.summary.ok()?.start_unix_ns));
        start.map_or(0, |start| unix_ns().saturating_sub(start))
    };
    let now = Instant::now();
    if let Some(epoch) = last {
        let age = Duration::from_nanos(age(epoch));
        if age < longest {
            return Ok((epoch.clone(), now.checked_sub(age).unwrap_or(now)));
        }
        merges.push_task(MergeTask::closing_epoch(epoch, 0));
    }
    Ok((database.begin_epoch(host, unix_ns())?, now))
}
