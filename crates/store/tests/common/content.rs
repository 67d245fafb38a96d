//! Comparison of the contents of two recordings.

use profile::Recording;

/// Returns the contents of a recording without the numbers of names and stacks in its tables and
/// without the order of its samples and threads.
pub fn content(recording: &Recording) -> String {
    let name = |id| recording.names.get(id);
    let stack = |id| recording.stacks.locations(id).collect::<Vec<_>>();
    let mut samples: Vec<String> = recording
        .samples
        .iter()
        .map(|s| {
            let waker = s
                .waker
                .map(|w| (name(w.process), w.tid, w.stack.map(stack)));
            let who = (s.event, name(s.process), s.pid, s.tid, s.slice);
            format!(
                "{who:?} {:?} {waker:?} {} {}",
                stack(s.stack),
                s.count,
                s.weight
            )
        })
        .collect();
    samples.sort_unstable();
    let mut threads: Vec<String> = recording
        .threads
        .iter()
        .map(|t| {
            format!(
                "{:?}",
                (t.event, t.pid, t.tid, name(t.process), t.count, t.weight)
            )
        })
        .collect();
    threads.sort_unstable();
    let r = recording;
    let head = (
        &r.host,
        &r.target,
        r.start_unix_ns,
        r.duration_ns,
        (r.task_times, r.slice_ns),
        r.collector,
        r.call_graph,
    );
    let mut branches = r.branches.clone();
    branches.sort_unstable();
    let mut stretches = r.stretches.clone();
    stretches.sort_unstable();
    let mut accesses = r.accesses.clone();
    accesses.sort_unstable();
    let rest = (
        r.kernel,
        &r.warnings,
        &r.events,
        &r.images,
        &r.symbols,
        branches,
        stretches,
        accesses,
    );
    format!(
        "{head:?}\n{rest:?}\n{}\n{}",
        samples.join("\n"),
        threads.join("\n")
    )
}
