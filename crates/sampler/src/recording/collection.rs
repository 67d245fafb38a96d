//! State that both collectors gather: images, process maps, counted samples, and warnings.

use crate::Error;
use crate::bpf::frame_words::{FIRST_LABEL, FrameWord, VDSO_LABEL};
use crate::bpf::kernel::Setting;
use crate::bpf::tables::Tables;
use crate::processes::cgroups::CgroupPaths;
use crate::processes::images::{ImageTable, KERNEL, UNKNOWN};
use crate::processes::maps::ProcessMaps;
use crate::recording::goroutine_labels::GoroutineLabels;
use crate::recording::known_stacks::KnownStacks;
use crate::recording::script_functions::ScriptFunctions;
use crate::recording::tally::Tally;
use profile::{
    Accesses, FileIdentity, ImageId, ImageKind, ImageOffset, Location, NameId, ProcessAddress,
    RARE_STACKS, RARE_STACKS_WARNING, SharedLines, StackId, Stretches,
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

/// Maximum number of frames of stacks, beside one for each place. `benches/deep_stacks.py` measures
/// their memory.
const MOST_FRAMES: usize = 1 << 21;

/// Maximum number of slices, which double in length beyond it: a week takes no more memory than a
/// minute.
const MOST_SLICES: u64 = 600;

/// Time since the start of the recording, in slices of equal length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slices {
    start_ns: u64,
    pub length_ns: u64,
    current: u32,
}

impl Slices {
    pub fn begin_at(start_ns: u64, length_ns: u64) -> Self {
        Self {
            start_ns,
            length_ns,
            current: 0,
        }
    }
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
    /// Code executed between branches that the processor recorded.
    pub stretches: Stretches,
    /// Data addresses, by the instruction that accesses them.
    pub accesses: FxHashMap<(ImageId, ImageOffset), Accesses>,
    /// Cache lines by the threads that use them.
    pub shared_lines: SharedLines,
    /// Functions of other languages.
    pub functions: ScriptFunctions,
    /// Labels of goroutines.
    pub labels: GoroutineLabels,
    /// The files of labels in stacks, from [`FIRST_LABEL`] on.
    pub labelled: Vec<FileIdentity>,
    /// Stacks of the tally by the numbers of their frames.
    pub known_stacks: KnownStacks,
    /// The control groups by the collector's numbers.
    pub cgroups: CgroupPaths,
    /// The current slice, where times are kept.
    pub slices: Option<Slices>,
    /// The names by the kernel's field.
    names: FxHashMap<Vec<u8>, NameId>,
    bound: FrameBound,
}

/// Bound on the frames of stacks: beyond it, rare stacks lose callers.
struct FrameBound {
    most: usize,
    /// Number of frames at which that happens next: higher if the places alone are nearly that
    /// many.
    fold_at: usize,
}

impl FrameBound {
    fn new(most: usize) -> Self {
        Self {
            most,
            fold_at: most,
        }
    }
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
            shared_lines: SharedLines::default(),
            functions: ScriptFunctions::default(),
            labels: GoroutineLabels::default(),
            labelled: Vec::new(),
            known_stacks: KnownStacks::default(),
            cgroups: CgroupPaths::default(),
            slices: None,
            names: FxHashMap::default(),
            bound: FrameBound::new(MOST_FRAMES),
        }
    }

    /// Keeps stacks within bounds: drops callers of rare ones when there are too many frames.
    /// Called while no stack numbers are in use.
    pub fn bound_stacks(&mut self) {
        if self.tally.stacks.len() <= self.bound.fold_at {
            return;
        }
        let (images, most) = (&mut self.images, self.bound.most);
        // To half of the bound, so that it is not repeated soon.
        let is_folded = self.tally.fold_rare_stacks(most / 2, || Location {
            image: images.named_image(ImageKind::Jit, RARE_STACKS),
            offset: ImageOffset(0),
        });
        if is_folded {
            self.known_stacks = KnownStacks::default();
            self.warnings.insert(RARE_STACKS_WARNING.to_owned());
        }
        self.bound.fold_at = most.max(self.tally.stacks.len() + most / 2);
    }

    /// Takes all samples out.
    pub fn take_tally(&mut self) -> Tally {
        self.bound = FrameBound::new(self.bound.most);
        self.names.clear();
        self.cgroups.forget_ids();
        self.labels.forget_ids();
        self.known_stacks = KnownStacks::default();
        std::mem::take(&mut self.tally)
    }

    /// Begins the slice of `time`, on the monotonic clock, in which later samples are counted.
    pub fn begin_slice(&mut self, time: u64) {
        let Some(slices) = &mut self.slices else {
            return;
        };
        let passed = time.saturating_sub(slices.start_ns);
        while passed / slices.length_ns >= MOST_SLICES {
            slices.length_ns *= 2;
            self.tally.join_slices();
        }
        slices.current = (passed / slices.length_ns) as u32;
    }

    /// Returns the current slice.
    pub fn slice(&self) -> Option<u32> {
        self.slices.map(|slices| slices.current)
    }

    /// Returns the name in a fixed, zero-terminated field of the kernel.
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

    /// Returns the path of a control group by the collector's number.
    pub fn cgroup(&mut self, number: u32) -> NameId {
        self.cgroups.name_of(number, &mut self.tally.names)
    }

    /// Returns the labels of a goroutine by the collector's number.
    pub fn goroutine_labels(&mut self, number: u32) -> Option<NameId> {
        self.labels.name_of(number, &mut self.tally.names)
    }

    /// Adds the paths of control groups from the tables.
    pub fn add_cgroups(&mut self, tables: &Tables<'_>) -> Result<(), Error> {
        let cgroups = &mut self.cgroups;
        tables.read_cgroups(|number, path| {
            if cgroups.is_new(number) {
                cgroups.add_path(number, path.text());
            }
        })
    }

    /// Returns the location of an address of a process at a time.
    pub fn locate_address(&mut self, pid: u32, time: u64, address: ProcessAddress) -> Location {
        self.maps
            .locate_address(pid, time, address, &mut self.images)
    }

    /// Adds a stack of process `pid` at `time`: first the callers of the user frames, then the
    /// kernel frames. Both are innermost first and hold return addresses as the kernel walked them;
    /// `None` if both are empty.
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

    /// Adds a stack whose user frames are inside their call instructions already.
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

    /// Adds a stack walked by unwind tables: its user frames are [`FrameWord`]s.
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
            stack = self.add_word(frame, pid, time, stack);
        }
        self.kernel_stack(kernel, stack)
    }

    /// Adds a stack of user and kernel frames that the collector found at `time`.
    pub fn stack_of_words(
        &mut self,
        setting: Setting,
        pid: u32,
        time: u64,
        (user, kernel): (&[u64], &[u64]),
    ) -> Option<StackId> {
        if setting.tables {
            self.walked_stack(pid, time, user, kernel)
        } else {
            self.add_stack(pid, time, user, kernel)
        }
    }

    /// Returns the stack in which a caller has called a frame of process `pid` at `time`. A
    /// placeholder adds no frame; a place with inlined calls adds several.
    pub fn add_word(
        &mut self,
        frame: FrameWord,
        pid: u32,
        time: u64,
        caller: Option<StackId>,
    ) -> Option<StackId> {
        let location = match frame {
            FrameWord::Script(frame) if frame.code == 0 => return caller,
            FrameWord::Script(frame) => {
                let functions = self.functions.locate_frame(frame, &mut self.images);
                let inlined = functions.into_iter().rev();
                let call = |caller, at| Some(self.tally.stacks.intern(at, caller));
                return inlined.fold(caller, call);
            }
            FrameWord::Image { label, offset } => self.labelled_place(label, offset),
            FrameWord::Address(address) => self.locate_address(pid, time, ProcessAddress(address)),
        };
        Some(self.tally.stacks.intern(location, caller))
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

/// Returns an address inside a caller's call instruction, from its return address.
fn inside_call(address: u64, depth: usize) -> u64 {
    if depth == 0 {
        address
    } else {
        address.saturating_sub(1)
    }
}

/// Returns a location in the kernel, by address until the recording is finished.
pub(crate) fn kernel_location(address: u64) -> Location {
    Location {
        image: KERNEL,
        offset: ImageOffset(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::tally::{Amount, SampleKey};
    use profile::{CallGraph, Collector, EventId, Host, Recording, Target};

    #[test]
    fn slices_become_longer_instead_of_more() {
        let mut collection = Collection::new(1);
        collection.slices = Some(Slices::begin_at(1000, 10));
        let process = collection.tally.names.intern("x");
        let stack = collection.tally.stacks.intern(kernel_location(1), None);
        for time in [1000, 1019, 1025, 1000 + 10 * MOST_SLICES] {
            collection.begin_slice(time);
            let key = SampleKey {
                event: EventId(0),
                process,
                pid: None,
                tid: None,
                cgroup: None,
                labels: None,
                stack,
                slice: collection.slice(),
                waker: None,
            };
            let one = Amount {
                count: 1,
                weight: 1,
            };
            collection.tally.count_sample(key, one);
        }
        let (host, target) = (Host::default(), Target::Machine);
        let mut recording = Recording::new(host, target, Collector::Bpf, CallGraph::Tables);
        assert_eq!(collection.slices.map(|slices| slices.length_ns), Some(20));
        collection
            .tally
            .move_into(&mut recording, |location| location);
        let mut counted: Vec<_> = (recording.samples.iter())
            .map(|sample| (sample.slice, sample.count))
            .collect();
        counted.sort_unstable();
        let last = u32::try_from(MOST_SLICES / 2).ok();
        assert_eq!(counted, [(Some(0), 2), (Some(1), 1), (last, 1)]);
    }

    /// Deep stacks that all differ, and one that recurs.
    #[test]
    fn stacks_that_all_differ_stay_within_bounds_and_places_are_exact() {
        const MOST: usize = 4000;
        let mut collection = Collection::new(1);
        collection.bound = FrameBound::new(MOST);
        let process = collection.tally.names.intern("x");
        let mut random = 1u64;
        let mut next = || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            random >> 40
        };
        let usual: Vec<u64> = (0..30).map(|frame| 1 << 30 | frame).collect();
        for round in 0..3000u64 {
            let mut frames: Vec<u64> = (0..30).map(|_| next() << 4).collect();
            frames[0] = 0x77 + round % 5;
            let frames = if round % 3 == 0 { &usual } else { &frames };
            let stack = collection.kernel_stack(frames, None).unwrap();
            let key = SampleKey {
                event: EventId(0),
                process,
                pid: None,
                tid: None,
                cgroup: None,
                labels: None,
                stack,
                slice: None,
                waker: None,
            };
            let one = Amount {
                count: 1,
                weight: 1,
            };
            collection.tally.count_sample(key, one);
            collection.bound_stacks();
            let frames = collection.tally.stacks.len();
            assert!(frames <= MOST, "{frames} frames");
        }
        let warnings = std::mem::take(&mut collection.warnings);
        assert_eq!(Vec::from_iter(warnings), [RARE_STACKS_WARNING]);
        let (host, target) = (Host::default(), Target::Machine);
        let mut recording = Recording::new(host, target, Collector::Bpf, CallGraph::Tables);
        collection
            .take_tally()
            .move_into(&mut recording, |location| location);
        let (mut places, mut whole) = (std::collections::BTreeMap::new(), 0);
        for sample in &recording.samples {
            let frames: Vec<u64> = (recording.stacks.locations(sample.stack))
                .map(|location| location.offset.0)
                .collect();
            *places.entry(frames[0]).or_insert(0) += sample.count;
            whole += if frames.len() == 30 && frames[0] == usual[0] {
                sample.count
            } else {
                0
            };
        }
        let expected = [
            (0x77, 400),
            (0x78, 400),
            (0x79, 400),
            (0x7a, 400),
            (0x7b, 400),
        ];
        assert!(
            places.remove(&usual[0]) == Some(1000) && whole >= 999,
            "{whole}"
        );
        assert_eq!(Vec::from_iter(places), expected);
    }
}
