//! What both collectors gather: images, process maps, counted samples, and what to warn of.

use crate::Error;
use crate::bpf::frame_words::{FIRST_LABEL, FrameWord, VDSO_LABEL};
use crate::bpf::tables::Tables;
use crate::processes::cgroups::CgroupPaths;
use crate::processes::images::{ImageTable, KERNEL, UNKNOWN};
use crate::processes::maps::ProcessMaps;
use crate::recording::goroutine_labels::GoroutineLabels;
use crate::recording::known_stacks::KnownStacks;
use crate::recording::python_functions::PythonFunctions;
use crate::recording::tally::Tally;
use profile::{
    Accesses, FileIdentity, ImageId, ImageKind, ImageOffset, Location, NameId, ProcessAddress,
    StackId, Stretches,
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
    /// Functions of other languages.
    pub functions: PythonFunctions,
    /// Labels of goroutines.
    pub labels: GoroutineLabels,
    /// The files of labels in stacks, from [`FIRST_LABEL`] on.
    pub labelled: Vec<FileIdentity>,
    /// Stacks of the tally by the numbers of their frames.
    pub known_stacks: KnownStacks,
    /// The control groups by the collector's numbers.
    pub cgroups: CgroupPaths,
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
            functions: PythonFunctions::default(),
            labels: GoroutineLabels::default(),
            labelled: Vec::new(),
            known_stacks: KnownStacks::default(),
            cgroups: CgroupPaths::default(),
            names: FxHashMap::default(),
        }
    }

    /// The samples, and none left.
    pub fn take_tally(&mut self) -> Tally {
        self.names.clear();
        self.cgroups.forget_ids();
        self.labels.forget_ids();
        self.known_stacks = KnownStacks::default();
        std::mem::take(&mut self.tally)
    }

    /// The name in a fixed, zero-terminated field of the kernel's.
    pub fn field_name(&mut self, field: &[u8]) -> NameId {
        if let Some(id) = self.names.get(field) {
            return *id;
        }
        let end = field.iter().position(|b| *b == 0).unwrap_or(field.len());
        let name = String::from_utf8_lossy(&field[..end]);
        let id = self.tally.names.intern(&name);
        self.names.insert(field.to_vec(), id);
        id
    }

    /// The path of a control group by the collector's number.
    pub fn cgroup(&mut self, number: u32) -> NameId {
        self.cgroups.name_of(number, &mut self.tally.names)
    }

    /// The labels of a goroutine by the collector's number.
    pub fn goroutine_labels(&mut self, number: u32) -> Option<NameId> {
        self.labels.name_of(number, &mut self.tally.names)
    }

    /// Takes in the paths of control groups that tables have.
    pub fn add_cgroups(&mut self, tables: &Tables<'_>) -> Result<(), Error> {
        let cgroups = &mut self.cgroups;
        tables.read_cgroups(|number, path| {
            if cgroups.is_new(number) {
                cgroups.add_path(number, path.text());
            }
        })
    }

    /// Where an address of a process was at a time.
    pub fn locate_address(&mut self, pid: u32, time: u64, address: ProcessAddress) -> Location {
        self.maps
            .locate_address(pid, time, address, &mut self.images)
    }

    /// Adds a stack of process `pid` at `time`: the callers of the user frames, then those of the
    /// kernel frames. Both are innermost first and hold return addresses as the kernel walked
    /// them; `None` if both are empty.
    pub fn add_stack(
        &mut self,
        pid: u32,
        time: u64,
        user: &[u64],
        kernel: &[u64],
    ) -> Option<StackId> {
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
            let location = self
                .maps
                .locate_address(pid, time, *address, &mut self.images);
            stack = Some(self.tally.stacks.intern(location, stack));
        }
        self.kernel_stack(kernel, stack)
    }

    /// Adds a stack that was walked by unwind tables: its user frames are [`FrameWord`]s.
    pub fn walked_stack(
        &mut self,
        pid: u32,
        time: u64,
        user: &[u64],
        kernel: &[u64],
    ) -> Option<StackId> {
        let mut stack = None;
        for (depth, word) in user.iter().enumerate().rev() {
            let frame = FrameWord::at_depth(*word, depth);
            let Some(location) = self.place_word(frame, pid, time) else {
                continue;
            };
            stack = Some(self.tally.stacks.intern(location, stack));
        }
        self.kernel_stack(kernel, stack)
    }

    /// Where a frame of process `pid` at `time` is; `None` if it is a place that was kept free.
    pub fn place_word(&mut self, frame: FrameWord, pid: u32, time: u64) -> Option<Location> {
        Some(match frame {
            FrameWord::Python(frame) if frame.code == 0 => return None,
            FrameWord::Python(frame) => self.functions.locate_frame(frame, &mut self.images),
            FrameWord::Image { label, offset } => self.labelled_place(label, offset),
            FrameWord::Address(address) => self.locate_address(pid, time, ProcessAddress(address)),
        })
    }

    fn labelled_place(&mut self, label: u32, offset: ImageOffset) -> Location {
        let file = label.checked_sub(FIRST_LABEL);
        let file = file.and_then(|index| self.labelled.get(index as usize));
        let image = match file {
            Some(file) => self.images.file_without_path(*file),
            None if label == VDSO_LABEL => self.images.named_image(ImageKind::Vdso, "[vdso]"),
            None => UNKNOWN,
        };
        Location { image, offset }
    }

    /// Adds frames of the kernel below `stack`.
    pub fn kernel_stack(&mut self, kernel: &[u64], mut stack: Option<StackId>) -> Option<StackId> {
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
