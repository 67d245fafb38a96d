//! What both collectors gather: images, process maps, counted samples, and what to warn of.

use crate::processes::images::{ImageTable, KERNEL};
use crate::processes::maps::ProcessMaps;
use crate::recording::tally::Tally;
use profile::{
    Accesses, ImageId, ImageOffset, Location, NameId, ProcessAddress, StackId, Stretches,
};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Accounting of an event over the whole recording.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Total {
    pub taken: u64,
    pub stored: u64,
    pub dropped: u64,
    pub lost: u64,
}

/// Everything gathered so far.
pub(crate) struct Collection {
    pub images: ImageTable,
    pub maps: ProcessMaps,
    pub tally: Tally,
    pub totals: Vec<Total>,
    pub warnings: BTreeSet<String>,
    /// Branches by image, place and target: seen at samples, seen along stretches.
    pub branches: FxHashMap<(ImageId, ImageOffset, ImageOffset), (u64, u64)>,
    /// What was executed between branches that the processor recorded.
    pub stretches: Stretches,
    /// Data addresses, by the instruction that accesses them.
    pub accesses: FxHashMap<(ImageId, ImageOffset), Accesses>,
    /// The names by the kernel's field.
    names: FxHashMap<Vec<u8>, NameId>,
}

impl Collection {
    pub fn new(events: usize) -> Self {
        Self {
            images: ImageTable::new(),
            maps: ProcessMaps::default(),
            tally: Tally::default(),
            totals: vec![Total::default(); events],
            warnings: BTreeSet::new(),
            branches: FxHashMap::default(),
            stretches: Stretches::default(),
            accesses: FxHashMap::default(),
            names: FxHashMap::default(),
        }
    }

    /// The samples, and none left.
    pub fn take_tally(&mut self) -> Tally {
        self.names.clear();
        std::mem::take(&mut self.tally)
    }

    /// The name in a fixed, zero-terminated field of the kernel's.
    pub fn name(&mut self, field: &[u8]) -> NameId {
        if let Some(id) = self.names.get(field) {
            return *id;
        }
        let end = field.iter().position(|b| *b == 0).unwrap_or(field.len());
        let name = String::from_utf8_lossy(&field[..end]);
        let id = self.tally.names.intern(&name);
        self.names.insert(field.to_vec(), id);
        id
    }

    /// Where an address of a process was at a time.
    pub fn locate(&mut self, pid: u32, time: u64, address: ProcessAddress) -> Location {
        self.maps.locate(pid, time, address, &mut self.images)
    }

    /// Adds a stack of process `pid` at `time`: the callers of the user frames, then those of the
    /// kernel frames. Both are innermost first and hold return addresses as the kernel walked
    /// them; `None` if both are empty.
    pub fn stack(&mut self, pid: u32, time: u64, user: &[u64], kernel: &[u64]) -> Option<StackId> {
        let inside = |(depth, address): (usize, &u64)| ProcessAddress(inside_call(*address, depth));
        let user: Vec<ProcessAddress> = user.iter().enumerate().map(inside).collect();
        self.unwound_stack(pid, time, &user, kernel)
    }

    /// The same with user frames that are inside their call instructions already.
    pub fn unwound_stack(
        &mut self,
        pid: u32,
        time: u64,
        user: &[ProcessAddress],
        kernel: &[u64],
    ) -> Option<StackId> {
        let mut stack = None;
        for address in user.iter().rev() {
            let location = self.maps.locate(pid, time, *address, &mut self.images);
            stack = Some(self.tally.stacks.intern(location, stack));
        }
        for (depth, &address) in kernel.iter().enumerate().rev() {
            let location = kernel_location(inside_call(address, depth));
            stack = Some(self.tally.stacks.intern(location, stack));
        }
        stack
    }
}

/// A caller is where its call instruction is, not where that returns to.
fn inside_call(address: u64, depth: usize) -> u64 {
    if depth == 0 {
        address
    } else {
        address.saturating_sub(1)
    }
}

/// A place in the kernel, by its address until the recording is finished.
pub(crate) fn kernel_location(address: u64) -> Location {
    Location {
        image: KERNEL,
        offset: ImageOffset(address),
    }
}
