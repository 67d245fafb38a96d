//! Drains that the writer has not stored yet.

use profile::Recording;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use store::PartId;

/// Limit on memory for drains that the kernel has cleared already, while the writer is late.
const MOST_BYTES: u64 = 64 << 20;
/// Usual time to store a drain; only a longer time counts as late.
const USUAL: Duration = Duration::from_secs(2);

/// Drains on their way to the writer.
#[derive(Default)]
pub(crate) struct Backlog {
    drains: VecDeque<(PartId, u64, Instant)>,
    /// The drain that is still in the kernel's buffer.
    in_kernel: Option<PartId>,
}

impl Backlog {
    /// Adds a drain.
    pub(crate) fn add_drain(&mut self, id: PartId, recording: &Recording) {
        self.drains
            .push_back((id, bytes_of(recording), Instant::now()));
    }

    /// Removes a stored drain; returns whether the kernel can clear its copy now.
    pub(crate) fn remove_stored(&mut self, id: PartId) -> bool {
        self.drains.retain(|(other, _, _)| *other != id);
        self.in_kernel.take_if(|kept| *kept == id).is_some()
    }

    /// Records that the kernel has a copy of a drain.
    pub(crate) fn enter_kernel(&mut self, id: PartId) {
        self.in_kernel = Some(id);
    }

    /// Records that the kernel's copy is cleared.
    pub(crate) fn leave_kernel(&mut self) {
        self.in_kernel = None;
    }

    /// Returns whether the kernel has a copy of a drain, and so no room for the next one.
    pub(crate) fn is_in_kernel(&self) -> bool {
        self.in_kernel.is_some()
    }

    /// Returns whether no drain is pending.
    pub(crate) fn is_empty(&self) -> bool {
        self.drains.is_empty()
    }

    /// Returns whether the memory limit is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.memory_bytes() >= MOST_BYTES
    }

    /// Returns the approximate memory of the drains.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.drains.iter().map(|(_, bytes, _)| bytes).sum()
    }

    /// Returns for how long the writer has been storing the oldest drain, in nanoseconds; 0 if that
    /// is usual.
    pub(crate) fn late_ns(&self) -> u64 {
        let age = self.drains.front().map(|(_, _, since)| since.elapsed());
        let late = age.filter(|age| *age > USUAL).unwrap_or_default();
        late.as_nanos() as u64
    }
}

/// Returns the approximate memory of a recording: its columns, and the tables that index them.
fn bytes_of(recording: &Recording) -> u64 {
    let rows = recording.samples.len() * (size_of::<profile::Sample>() + 96)
        + recording.stacks.frames().len() * 96
        + recording.threads.len() * size_of::<profile::ThreadCount>()
        + recording.images.len() * 256
        + recording.symbols.len() * 128;
    rows as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{CallGraph, Collector, Host, Target};

    #[test]
    fn the_kernel_forgets_only_what_is_stored() {
        let mut backlog = Backlog::default();
        let id = |drain| PartId {
            collector: 1,
            drain,
        };
        let host = Host::default();
        let recording = Recording::new(host, Target::Machine, Collector::Bpf, CallGraph::None);
        backlog.add_drain(id(1), &recording);
        backlog.enter_kernel(id(1));
        assert!(backlog.is_in_kernel());
        // The writer is late, and the kernel needs the room.
        backlog.leave_kernel();
        backlog.add_drain(id(2), &recording);
        backlog.enter_kernel(id(2));
        assert!(
            !backlog.remove_stored(id(1)),
            "the kernel has the second one now"
        );
        assert!(backlog.is_in_kernel());
        assert!(backlog.remove_stored(id(2)));
        assert!(backlog.is_empty() && !backlog.is_in_kernel() && !backlog.is_full());
    }
}
