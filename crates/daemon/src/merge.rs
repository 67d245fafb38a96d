//! Merges the parts of an epoch in a child process, whose memory ends with it and whose priority is
//! low.

use crate::options::MergeOptions;
use crate::retention::remove_expired;
use profile::{NameId, ProcessNames, Recording, ThreadCount};
use std::collections::{BTreeMap, BTreeSet};
use store::{Database, OpenEpoch};

/// Threads with less than this fraction of their event's samples are counted together: a machine
/// that compiles starts a million a day.
const SMALL_THREAD: f64 = 1e-4;

/// Merges parts of an epoch, at low priority. If the disk is full, the oldest epochs make room.
///
/// # Errors
/// If an epoch cannot be read or written.
pub fn merge_epoch(options: &MergeOptions) -> anyhow::Result<()> {
    let _ = rustix::process::nice(10);
    let database = Database::create(&options.database)?;
    let host = sampler::read_host().name;
    loop {
        match merge_once(options, &database) {
            Ok(()) => break,
            // The child process of a killed daemon has just closed it.
            Err(_) if !options.epoch.exists() => break,
            // Older epochs are removed before newer ones, merged or not.
            Err(error)
                if error.is_full()
                    && !remove_expired(&database, &host, &options.retention, true)?.is_empty() => {}
            Err(error) => return Err(error.into()),
        }
    }
    if options.close {
        remove_expired(&database, &host, &options.retention, false)?;
    }
    Ok(())
}

fn merge_once(options: &MergeOptions, database: &Database) -> Result<(), store::StoreError> {
    let epoch = OpenEpoch::at_path(&options.epoch);
    if options.close {
        let amend = |merged: &mut Recording| {
            sampler::name_kernel(merged);
            name_images(merged);
            // By the time the epoch is read, files may have been replaced, and the reader may be on
            // another host.
            symbols::embed_procedures(merged, &symbols::SymbolOptions::default());
            fold_threads(merged);
        };
        epoch.close_epoch(database, amend).map(|_| ())
    } else {
        epoch.merge_parts(options.all, |merged| {
            sampler::name_kernel(merged);
            name_images(merged);
        })
    }
}

/// Names images that were seen only by inode, while no daemon ran, from another part that knows the
/// file.
fn name_images(recording: &mut Recording) {
    let mut paths = BTreeMap::new();
    for image in &recording.images {
        if let (Some(file), false) = (image.file, image.is_nameless()) {
            paths.insert(
                file,
                (image.path.clone(), image.build_id.clone(), image.gone),
            );
        }
    }
    for image in &mut recording.images {
        if image.is_nameless()
            && let Some((path, build_id, gone)) = image.file.and_then(|file| paths.get(&file))
        {
            image.path.clone_from(path);
            image.build_id.clone_from(build_id);
            image.gone = *gone;
        }
    }
}

/// Merges small threads of a process name and control group into process 0.
fn fold_threads(recording: &mut Recording) {
    let names = ProcessNames::of_recording(recording);
    let mut totals = vec![0u64; recording.events.len()];
    for thread in &recording.threads {
        if let Some(total) = totals.get_mut(usize::from(thread.event.0)) {
            *total = total.saturating_add(thread.count);
        }
    }
    let mut folded: BTreeMap<(u16, NameId, Option<NameId>), ThreadCount> = BTreeMap::new();
    let is_small = |thread: &ThreadCount| {
        let total = totals.get(usize::from(thread.event.0)).copied();
        (thread.count as f64) < SMALL_THREAD * total.unwrap_or(0) as f64
    };
    let large = recording.threads.iter().filter(|thread| !is_small(thread));
    let large: BTreeSet<u32> = large.map(|thread| thread.pid).collect();
    recording.threads.retain(|thread| {
        if thread.count == 0 {
            return large.contains(&thread.pid); // the name of its process
        }
        if !is_small(thread) {
            return true;
        }
        let process = names.name_of_thread(thread);
        let key = (thread.event.0, process, thread.cgroup);
        let sum = folded.entry(key).or_insert(ThreadCount {
            pid: 0,
            tid: 0,
            process,
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

#[cfg(test)]
mod tests {
    use super::*;
    use profile::Target;

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
            cgroup: None,
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
        // The names of the process and the thread go with small threads, and stay with large ones.
        let [java, helper] = ["java", "GC Thread#0"].map(|name| recording.names.intern(name));
        for (pid, count) in [(100, 2), (200, 1_000_000)] {
            recording.threads.push(thread(pid, 0, java));
            recording.threads.push(ThreadCount {
                pid,
                ..thread(pid + 1, count, helper)
            });
        }
        fold_threads(&mut recording);
        let rows: Vec<_> = recording
            .threads
            .iter()
            .map(|thread| (thread.pid, thread.tid, thread.process, thread.count))
            .collect();
        assert_eq!(
            rows,
            [
                (1, 1, name, 1_000_000),
                (200, 200, java, 0),
                (200, 201, helper, 1_000_000),
                (0, 0, name, 150),
                (0, 0, java, 2),
            ]
        );
    }
}
