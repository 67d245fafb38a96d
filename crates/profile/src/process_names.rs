//! Names of processes.

use crate::{NameId, Recording, Sample, ThreadCount};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The names of the processes that threads and samples belong to.
///
/// A process has the name of its first thread, else of its thread with the most samples. Threads of
/// a JVM or of Node.js have their own names, which do not name the process. A first thread belongs
/// to the process that it names; before an `exec` it has another name. If the last name of the
/// first thread has no samples, or is not its only name, [`name_processes`] adds it.
pub struct ProcessNames {
    by_pid: FxHashMap<u32, NameId>,
    /// By process id, if known, and name of the thread: one name, or those of all processes with
    /// such a thread.
    by_thread: FxHashMap<(Option<u32>, NameId), Vec<NameId>>,
}

impl ProcessNames {
    /// Collects the names of a recording's processes.
    pub fn of_recording(recording: &Recording) -> Self {
        let mut names = Self {
            by_pid: names_by_pid(recording),
            by_thread: FxHashMap::default(),
        };
        for thread in &recording.threads {
            let name = names.name_of_thread(thread);
            for pid in [None, Some(thread.pid)] {
                let of_thread = names.by_thread.entry((pid, thread.process)).or_default();
                if !of_thread.contains(&name) {
                    of_thread.push(name);
                }
            }
        }
        names
    }

    /// Returns the name of a process.
    pub fn name_of_process(&self, pid: u32) -> Option<NameId> {
        self.by_pid.get(&pid).copied()
    }

    /// Returns the name of a thread's process.
    pub fn name_of_thread(&self, thread: &ThreadCount) -> NameId {
        // Threads that are counted together have no process.
        if thread.tid == thread.pid {
            return thread.process;
        }
        self.name_of_process(thread.pid).unwrap_or(thread.process)
    }

    /// Returns the possible names of a sample's process: one, unless several processes have a
    /// thread of this name and the samples have no process ids.
    pub fn names_of_sample<'a>(&'a self, sample: &'a Sample) -> &'a [NameId] {
        match self.by_thread.get(&(sample.pid, sample.process)) {
            Some(names) => names,
            None => std::slice::from_ref(&sample.process),
        }
    }

    /// Returns the name of a sample's process, or of its thread if there are several candidates.
    pub fn name_of_sample(&self, sample: &Sample) -> NameId {
        match self.names_of_sample(sample) {
            [name] => *name,
            _ => sample.process,
        }
    }
}

/// Adds the last names of the first threads of the recording's processes, as threads without
/// samples. They name processes whose first thread had no samples, or had others under an earlier
/// name.
pub fn name_processes<'a>(recording: &mut Recording, last_name: impl Fn(u32) -> Option<&'a str>) {
    let mut processes: BTreeMap<u32, (ThreadCount, Vec<NameId>)> = BTreeMap::new();
    for thread in &recording.threads {
        let (_, names) = processes.entry(thread.pid).or_insert((*thread, Vec::new()));
        if thread.tid == thread.pid && !names.contains(&thread.process) {
            names.push(thread.process);
        }
    }
    for (pid, (thread, names)) in processes {
        let Some(last) = last_name(pid).filter(|_| pid != 0) else {
            continue;
        };
        let process = recording.names.intern(last);
        if names != [process] {
            recording.threads.push(ThreadCount {
                tid: pid,
                process,
                count: 0,
                weight: 0,
                ..thread
            });
        }
    }
}

/// Returns the name of each process, by its id.
fn names_by_pid(recording: &Recording) -> FxHashMap<u32, NameId> {
    let mut best: FxHashMap<u32, ((bool, bool, u64), NameId)> = FxHashMap::default();
    for thread in &recording.threads {
        let is_first = thread.tid == thread.pid;
        let rank = (is_first && thread.count == 0, is_first, thread.count);
        let known = best.entry(thread.pid).or_insert((rank, thread.process));
        if rank > known.0 {
            *known = (rank, thread.process);
        }
    }
    let names = best.into_iter();
    names.map(|(pid, (_, name))| (pid, name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CallGraph, Collector, EventId, Host, StackId, Target, ThreadCount};

    fn recording(threads: &[(u32, u32, &str, u64)]) -> Recording {
        let target = Target::Machine;
        let mut recording =
            Recording::new(Host::default(), target, Collector::Bpf, CallGraph::None);
        for (pid, tid, name, count) in threads.iter().copied() {
            let process = recording.names.intern(name);
            recording.threads.push(ThreadCount {
                event: EventId(0),
                pid,
                tid,
                process,
                cgroup: None,
                count,
                weight: 0,
            });
        }
        recording
    }

    #[test]
    fn a_first_thread_without_samples_names_its_process() {
        let mut recording = recording(&[
            (7, 8, "C2 CompilerThre", 5),
            (7, 9, "GC Thread#0", 50),
            (6, 6, "sh", 4),
            (6, 10, "worker", 9),
            (5, 5, "plain", 1),
            (4, 11, "unheard of", 1),
            (0, 0, "swapper", 1),
        ]);
        let last_name = |pid| match pid {
            7 => Some("java"),
            6 => Some("server"),
            5 => Some("plain"),
            0 => Some("nobody"),
            _ => None,
        };
        name_processes(&mut recording, last_name);
        let names = ProcessNames::of_recording(&recording);
        let of_thread: Vec<&str> = recording
            .threads
            .iter()
            .map(|thread| recording.names.get(names.name_of_thread(thread)))
            .collect();
        assert_eq!(
            of_thread,
            [
                "java",
                "java",
                "sh",
                "server",
                "plain",
                "unheard of",
                "swapper",
                "server",
                "java"
            ]
        );
        let added = &recording.threads[7..];
        assert!(
            added
                .iter()
                .all(|thread| (thread.count, thread.tid) == (0, thread.pid))
        );
    }

    #[test]
    fn the_first_thread_names_its_process() {
        let mut recording = recording(&[
            (7, 8, "C2 CompilerThre", 5),
            (7, 7, "sh", 1),
            (7, 7, "java", 2),
            (9, 10, "helper", 1),
            (9, 11, "worker", 3),
            (3, 3, "node", 3),
            (3, 4, "helper", 1),
            (0, 0, "helper", 8),
        ]);
        let names = ProcessNames::of_recording(&recording);
        let mut of_sample = |pid: Option<u32>, thread: &str| {
            let process = recording.names.intern(thread);
            let sample = Sample {
                pid,
                ..Sample::new(EventId(0), process, StackId(0), 1)
            };
            let possible = names.names_of_sample(&sample).iter();
            possible
                .map(|name| recording.names.get(*name).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(of_sample(None, "C2 CompilerThre"), ["java"]);
        assert_eq!(of_sample(None, "sh"), ["sh"]);
        assert_eq!(of_sample(None, "helper"), ["worker", "node", "helper"]);
        assert_eq!(of_sample(Some(3), "helper"), ["node"]);
        assert_eq!(of_sample(Some(9), "helper"), ["worker"]);
        assert_eq!(of_sample(None, "unheard of"), ["unheard of"]);
    }
}
