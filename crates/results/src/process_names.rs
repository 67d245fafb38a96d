//! Names of processes.

use profile::{NameId, Recording};
use rustc_hash::FxHashMap;

/// Returns the name of each process, by its id: that of its first thread, else of its thread with the most samples. Threads of a JVM or of
/// Node.js have names of their own, which are none of the process.
pub fn process_names(recording: &Recording) -> FxHashMap<u32, NameId> {
    let mut best: FxHashMap<u32, ((bool, u64), NameId)> = FxHashMap::default();
    for thread in &recording.threads {
        let rank = (thread.tid == thread.pid, thread.count);
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
    use profile::{CallGraph, Collector, EventId, Host, Target, ThreadCount};

    #[test]
    fn the_first_thread_names_its_process() {
        let target = Target::Process(7);
        let mut recording =
            Recording::new(Host::default(), target, Collector::Bpf, CallGraph::None);
        for (pid, tid, name, count) in [
            (7, 8, "C2 CompilerThre", 5),
            (7, 7, "java", 1),
            (9, 10, "helper", 1),
            (9, 11, "worker", 3),
        ] {
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
        let names = process_names(&recording);
        assert_eq!(recording.names.get(names[&7]), "java");
        assert_eq!(recording.names.get(names[&9]), "worker");
    }
}
