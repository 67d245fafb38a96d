//! Reads the kernel's counts of user-stack walks.

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use profile::{StackWalkCounts, StackWalks};

/// Reads `struct walk_counts` of unwind_tables.h, summed over all CPUs.
pub(crate) fn read_walks(map: &MapHandle) -> StackWalks {
    let mut sums = StackWalkCounts::default();
    let per_cpu = map.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
    for cpu in per_cpu.ok().flatten().unwrap_or_default() {
        for (sum, word) in sums.iter_mut().zip(cpu.chunks_exact(8)) {
            *sum += word.try_into().map_or(0, u64::from_ne_bytes);
        }
    }
    sums.into()
}

/// Sets the sums to zero.
pub(crate) fn clear_walks(map: &MapHandle) {
    let cpus = libbpf_rs::num_possible_cpus().unwrap_or(0);
    let zeros = vec![vec![0; size_of::<StackWalkCounts>()]; cpus];
    let _ = map.update_percpu(&0u32.to_ne_bytes(), &zeros, MapFlags::ANY);
}
