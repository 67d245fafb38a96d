//! Merging the parts of an epoch, in a process of its own: the memory that it takes goes with it,
//! and it yields to everything else.

use crate::args::{DaemonMerge, Keep};
use profile::{Recording, ThreadCount};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};
use store::{Database, Epoch, OpenEpoch};

/// Threads below this part of the samples of their event are counted together: a machine that
/// compiles starts a million a day.
const SMALL_THREAD: f64 = 1e-4;

/// Runs the command.
pub fn merge(args: &DaemonMerge) -> anyhow::Result<ExitCode> {
    let _ = rustix::process::nice(10);
    let database = Database::create(&args.db)?;
    let host = sampler::host().name;
    loop {
        match merge_once(args, &database) {
            Ok(()) => break,
            // The child of a daemon that was killed has just closed it.
            Err(_) if !args.epoch.exists() => break,
            // The oldest epochs go before newer ones, merged or not.
            Err(error)
                if error.is_full() && !expire(&database, &host, &args.keep, true)?.is_empty() => {}
            Err(error) => return Err(error.into()),
        }
    }
    if args.close {
        expire(&database, &host, &args.keep, false)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn merge_once(args: &DaemonMerge, database: &Database) -> Result<(), store::Error> {
    let epoch = OpenEpoch::at(&args.epoch);
    if args.close {
        let amend = |merged: &mut Recording| {
            sampler::name_kernel(merged);
            name_images(merged);
            // When the epoch is read, files may have been replaced, and the reader may be another host.
            symbols::embed_procedures(merged, &symbols::Options::default());
            fold_threads(merged);
        };
        epoch.close(database, amend).map(|_| ())
    } else {
        epoch.merge(args.all, |merged| {
            sampler::name_kernel(merged);
            name_images(merged);
        })
    }
}

/// Images that were seen by their inode only, while no daemon ran, are named by another part that
/// knows the file.
fn name_images(recording: &mut Recording) {
    let mut paths = BTreeMap::new();
    for image in &recording.images {
        if let (Some(file), false) = (image.file, image.path.starts_with("[inode ")) {
            paths.insert(
                file,
                (image.path.clone(), image.build_id.clone(), image.gone),
            );
        }
    }
    for image in &mut recording.images {
        if image.path.starts_with("[inode ")
            && let Some((path, build_id, gone)) = image.file.and_then(|file| paths.get(&file))
        {
            image.path.clone_from(path);
            image.build_id.clone_from(build_id);
            image.gone = *gone;
        }
    }
}

/// Counts small threads together, by name, as process 0.
fn fold_threads(recording: &mut Recording) {
    let mut totals = vec![0u64; recording.events.len()];
    for thread in &recording.threads {
        if let Some(total) = totals.get_mut(usize::from(thread.event.0)) {
            *total = total.saturating_add(thread.count);
        }
    }
    let mut folded: BTreeMap<(u16, u32), ThreadCount> = BTreeMap::new();
    recording.threads.retain(|thread| {
        let total = totals
            .get(usize::from(thread.event.0))
            .copied()
            .unwrap_or(0);
        if thread.count as f64 >= SMALL_THREAD * total as f64 {
            return true;
        }
        let key = (thread.event.0, thread.process.0);
        let sum = folded.entry(key).or_insert(ThreadCount {
            pid: 0,
            tid: 0,
            count: 0,
            weight: 0,
            ..*thread
        });
        sum.count = sum.count.saturating_add(thread.count);
        sum.weight = sum.weight.saturating_add(thread.weight);
        false
    });
    recording.threads.extend(folded.into_values());
}

/// Removes what is not kept: closed epochs of this host, the oldest first; on a `full` disk one at least, if their size is limited.
/// Those that were removed.
pub fn expire(
    database: &Database,
    host: &str,
    keep: &Keep,
    full: bool,
) -> anyhow::Result<Vec<PathBuf>> {
    if keep.keep.is_none() && keep.keep_size.is_none() {
        return Ok(Vec::new());
    }
    let epochs = database.select(&store::Range::default(), Some(host))?;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let mut removed = Vec::new();
    for epoch in expired(&epochs, now.as_nanos() as u64, keep, full) {
        database.remove(epoch)?;
        removed.push(epoch.path.clone());
    }
    Ok(removed)
}

fn expired<'e>(epochs: &'e [Epoch], now_unix_ns: u64, keep: &Keep, full: bool) -> Vec<&'e Epoch> {
    let bytes = |epoch: &Epoch| epoch.summary.as_ref().map_or(0, |summary| summary.bytes);
    let mut size: u64 = epochs.iter().map(bytes).fold(0, u64::saturating_add);
    let mut expired = Vec::new();
    for epoch in epochs {
        // What cannot be read is damaged, and for people to look at.
        let Ok(summary) = &epoch.summary else {
            continue;
        };
        let end = summary.start_unix_ns.saturating_add(summary.duration_ns);
        let old = keep
            .keep
            .is_some_and(|keep| u128::from(now_unix_ns.saturating_sub(end)) > keep.as_nanos());
        let room = full && expired.is_empty();
        let much = keep.keep_size.is_some_and(|most| size > most || room);
        if !epoch.open && (old || much) {
            size = size.saturating_sub(summary.bytes);
            expired.push(epoch);
        }
    }
    expired
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::Target;
    use std::time::Duration;
    use store::Summary;

    fn epoch(hour: u64, open: bool) -> Epoch {
        Epoch {
            path: format!("{hour}").into(),
            open,
            summary: Ok(Summary {
                start_unix_ns: hour * 3_600_000_000_000,
                duration_ns: 3_600_000_000_000,
                host: "h".into(),
                target: Target::Machine,
                events: Vec::new(),
                samples: 1,
                bytes: 100,
            }),
            damaged: Vec::new(),
        }
    }

    #[test]
    fn the_oldest_closed_epochs_go_first() {
        let mut epochs: Vec<Epoch> = (0..5).map(|hour| epoch(hour, hour == 4)).collect();
        let removed_when = |epochs: &[Epoch], keep: Keep, full: bool| {
            let now = 5 * 3_600_000_000_000;
            let expired = expired(epochs, now, &keep, full);
            expired
                .iter()
                .map(|e| e.path.display().to_string())
                .collect::<Vec<_>>()
                .join(" ")
        };
        let removed = |epochs: &[Epoch], keep: Keep| removed_when(epochs, keep, false);
        let age = |hours: u64| Keep {
            keep: Some(Duration::from_secs(3600 * hours)),
            keep_size: None,
        };
        let size = |bytes| Keep {
            keep: None,
            keep_size: Some(bytes),
        };
        assert_eq!(removed(&epochs, Keep::default()), "");
        assert_eq!(removed(&epochs, age(2)), "0 1");
        assert_eq!(removed(&epochs, age(0)), "0 1 2 3");
        assert_eq!(removed(&epochs, size(499)), "0");
        assert_eq!(removed(&epochs, size(1)), "0 1 2 3");
        // A full disk takes one more, and only where the size is limited.
        assert_eq!(removed_when(&epochs, Keep::default(), true), "");
        assert_eq!(removed_when(&epochs, age(2), true), "0 1");
        assert_eq!(removed_when(&epochs, age(100), true), "");
        assert_eq!(removed_when(&epochs, size(10_000), true), "0");
        assert_eq!(removed_when(&epochs[4..], size(10_000), true), "");
        epochs[1].summary = Err(store::Error::Unstorable { what: "x".into() });
        assert_eq!(removed(&epochs, age(2)), "0");
    }

    #[test]
    fn small_threads_are_counted_together_and_nothing_is_lost() {
        use profile::{CallGraph, Collector, EventId, Host, NameId};
        let mut recording = Recording::new(
            Host::default(),
            Target::Machine,
            Collector::Bpf,
            CallGraph::None,
        );
        recording
            .events
            .push(profile::Event::new("cpu-clock", profile::Unit::Samples, 1));
        let name = recording.names.intern("cc1");
        let thread = |tid: u32, count: u64, process: NameId| ThreadCount {
            event: EventId(0),
            pid: tid,
            tid,
            process,
            count,
            weight: count,
        };
        recording.threads.push(thread(1, 1_000_000, name));
        recording
            .threads
            .extend((2..52).map(|tid| thread(tid, 3, name)));
        fold_threads(&mut recording);
        assert_eq!(recording.threads.len(), 2);
        assert_eq!(
            recording.threads[1],
            ThreadCount {
                pid: 0,
                tid: 0,
                ..thread(0, 150, name)
            }
        );
    }
}
