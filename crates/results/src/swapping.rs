//! Swapping, by the kernel's functions on stacks.

use profile::{ImageKind, Location, Recording, StackId, SymbolTable};
use rustc_hash::FxHashMap;

/// Part of the time of making room in memory that swapping must have for the program to swap.
const SWAPS: f64 = 0.1;
/// Parts of the names of kernel functions that swap memory in or out, for any swap device.
const SWAPPING: [&str; 10] = [
    "do_swap_page",
    "swapin",
    "swap_read",
    "swap_cache_async",
    "swap_cluster_readahead",
    "swap_write",
    "folio_alloc_swap",
    "add_to_swap",
    "zswap_load",
    "zswap_store",
];

/// Parts of the names of kernel functions that make room in memory for an allocation. They may also
/// evict pages of files.
const RECLAIM: [&str; 5] = [
    "try_to_free_pages",
    "try_to_free_mem_cgroup_pages",
    "throttle_direct_reclaim",
    "mem_cgroup_handle_over_high",
    "node_reclaim",
];

/// Kernel work due to a shortage of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryWork {
    /// Swapping.
    Swap,
    /// Making room by evicting memory or files' pages.
    Reclaim,
}

impl MemoryWork {
    /// Returns the work of a thread, by the kernel's names on its stack.
    pub fn of_kernel(kernel: &[&str]) -> Option<Self> {
        let calls = |parts: &[&str]| {
            let mut names = kernel.iter();
            names.any(|name| parts.iter().any(|part| name.contains(part)))
        };
        if calls(&SWAPPING) {
            Some(Self::Swap)
        } else {
            calls(&RECLAIM).then_some(Self::Reclaim)
        }
    }

    /// Returns whether a thread swaps. If its program swaps, making room is a part of it.
    pub fn is_swapping(kernel: &[&str], program_swaps: bool) -> bool {
        match Self::of_kernel(kernel) {
            Some(Self::Swap) => true,
            Some(Self::Reclaim) => program_swaps,
            None => false,
        }
    }
}

/// Returns whether a program swaps. A program that only reads and writes large files makes room in
/// memory, too.
pub fn program_swaps(recording: &Recording, table: &SymbolTable, each_sample: f64) -> bool {
    let mut works: FxHashMap<StackId, Option<MemoryWork>> = FxHashMap::default();
    let (mut swap, mut reclaim) = (0.0, 0.0);
    for sample in &recording.samples {
        let each = match recording.event(sample.event).name.as_str() {
            "off-cpu" => 1.0,
            _ if sample.event.0 == 0 => each_sample,
            _ => continue,
        };
        let work = *works.entry(sample.stack).or_insert_with(|| {
            let locations = recording.stacks.locations(sample.stack);
            let kernel = locations.filter(|at| is_of_kernel(recording, *at));
            let procedures = kernel.filter_map(|at| table.procedure(at));
            let names: Vec<&str> = procedures.map(|procedure| &*procedure.name).collect();
            MemoryWork::of_kernel(&names)
        });
        match work {
            Some(MemoryWork::Swap) => swap += each * sample.weight as f64,
            Some(MemoryWork::Reclaim) => reclaim += each * sample.weight as f64,
            None => {}
        }
    }
    swap > 0.0 && swap >= SWAPS * reclaim
}

/// Returns whether a place is in the kernel.
pub fn is_of_kernel(recording: &Recording, at: Location) -> bool {
    let kind = &recording.image(at.image).kind;
    matches!(kind, ImageKind::Kernel | ImageKind::KernelModule)
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{
        CallGraph, Collector, Event, EventId, Host, Image, ImageId, ImageOffset, Procedure,
        Resolution, Sample, Target, Unit,
    };

    /// Returns whether a program with these samples in each of `functions` swaps.
    fn swaps(kind: ImageKind, functions: &[(&str, u64)]) -> bool {
        let mut recording = Recording::new(
            Host::default(),
            Target::Machine,
            Collector::Bpf,
            CallGraph::Tables,
        );
        recording.events = vec![Event::new("cpu-clock", Unit::Samples, 1)];
        recording.images = vec![Image {
            kind,
            ..Image::unknown()
        }];
        let process = recording.names.intern("app");
        let mut table = SymbolTable::new();
        for (offset, (name, count)) in (0..).zip(functions) {
            let place = Location {
                image: ImageId(0),
                offset: ImageOffset(offset),
            };
            let procedure = Procedure {
                name: (*name).into(),
                start: ImageOffset(offset),
                size: 1,
            };
            table.insert(
                place,
                Resolution {
                    procedure: Some(procedure),
                    ..Resolution::default()
                },
            );
            let stack = recording.stacks.intern(place, None);
            let sample = Sample::new(EventId(0), process, stack, *count);
            recording.samples.push(sample);
        }
        program_swaps(&recording, &table, 1e6)
    }

    #[test]
    fn who_only_makes_room_does_not_swap() {
        let reclaim = ("try_to_free_mem_cgroup_pages", 100);
        let kernel = ImageKind::Kernel;
        assert!(swaps(kernel, &[("do_swap_page", 20), reclaim]));
        assert!(!swaps(kernel, &[("do_swap_page", 2), reclaim]));
        assert!(!swaps(kernel, &[("vfs_read", 100), reclaim]));
        assert!(!swaps(kernel, &[("vfs_read", 100)]));
        // A function of the program.
        assert!(!swaps(ImageKind::File, &[("do_swap_page", 20)]));
    }
}
