//! Branch stacks (Intel's and AMD's LBR, Arm's BRBE): the last taken branches before a sample. From
//! the target of each, execution went straight to the next.

use crate::{ImageId, ImageOffset, Location, ProcessAddress};
use rustc_hash::FxHashMap;

/// Most memory that one kind of stretch takes, in bytes, while its table grows.
const SIZE: u64 = 224;
/// Longest run of bytes executed without a branch. In a longer one, a branch is missing.
const LONGEST: u64 = 1 << 16;

/// A taken branch, as a processor records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenBranch {
    /// The branch.
    pub from: ProcessAddress,
    /// The target of the branch.
    pub to: ProcessAddress,
    /// True if the prediction was wrong; `None` if the processor does not say.
    pub mispredicted: Option<bool>,
}

impl TakenBranch {
    /// Bytes of an entry of perf's branch stacks.
    pub const ENTRY: usize = 24;

    /// Parses the three words of a `perf_branch_entry`; `None` if the branch was only speculated,
    /// and never executed. The flags are a bit field, whose order is reversed on a `big`-endian
    /// machine.
    pub fn of_entry([from, to, flags]: [u64; 3], big: bool) -> Option<Self> {
        /// `PERF_BR_SPEC_WRONG_PATH`.
        const WRONG_PATH: u64 = 1;
        let (missed, hit, speculation) = if big {
            (flags >> 63, flags >> 62 & 1, flags >> 38 & 3)
        } else {
            (flags & 1, flags >> 1 & 1, flags >> 24 & 3)
        };
        (speculation != WRONG_PATH).then_some(Self {
            from: ProcessAddress(from),
            to: ProcessAddress(to),
            mispredicted: (missed | hit != 0).then_some(missed == 1),
        })
    }
}

/// Straight-line code executed between two branches, and the target of the second. Offsets are in
/// the image's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stretch {
    /// The target of the previous branch.
    pub start: ImageOffset,
    /// The last instruction, a taken branch (or the point of an interrupt).
    pub branch: ImageOffset,
    /// The target of that branch; `None` if it is outside the image.
    pub target: Option<ImageOffset>,
}

/// Sightings of a stretch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StretchSightings {
    /// All sightings.
    pub times: u64,
    /// The number of sightings with a verdict of the processor on its prediction.
    pub judged: u64,
    /// The number of those that were mispredicted.
    pub mispredicted: u64,
}

impl StretchSightings {
    /// Adds the sightings of `other`. Sums that are too large stay at the largest number.
    pub fn join(&mut self, other: Self) {
        self.times = self.times.saturating_add(other.times);
        self.judged = self.judged.saturating_add(other.judged);
        self.mispredicted = self.mispredicted.saturating_add(other.mispredicted);
    }
}

/// A stretch of an image with its sightings in branch stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StretchCount {
    /// The image.
    pub image: ImageId,
    /// The stretch.
    pub stretch: Stretch,
    /// The sightings.
    pub seen: StretchSightings,
}

/// Counts of the stretches in branch stacks.
#[derive(Clone, Debug, Default)]
pub struct Stretches {
    counts: FxHashMap<(ImageId, Stretch), StretchSightings>,
    /// Number of stacks.
    pub stacks: u64,
    /// Stretches in files that were counted.
    pub used: u64,
    /// Pairs of branches without a possible execution between them: a branch is missing or wrong.
    pub impossible: u64,
}

impl Stretches {
    /// Returns the minimum number of kinds that fit into `bytes` bytes of memory.
    pub fn kinds_in(bytes: u64) -> usize {
        usize::try_from(bytes / SIZE).unwrap_or(usize::MAX)
    }

    /// Returns how many kinds of stretches there are.
    pub fn kinds(&self) -> usize {
        self.counts.len()
    }

    /// Adds the stack of a sample, the newest branch first. The oldest branch only contributes its
    /// target, because the path to it is unknown. Addresses in no file are left out.
    pub fn add(
        &mut self,
        stack: &[TakenBranch],
        mut locate: impl FnMut(ProcessAddress) -> Location,
        is_file: impl Fn(ImageId) -> bool,
    ) {
        self.stacks += 1;
        for pair in stack.windows(2) {
            let [newer, older] = pair else { continue };
            let (start, end) = (locate(older.to), locate(newer.from));
            if !is_file(start.image) && !is_file(end.image) {
                continue;
            }
            let length = newer.from.0.wrapping_sub(older.to.0);
            if start.image != end.image || length > LONGEST {
                self.impossible += 1;
                continue;
            }
            let target = locate(newer.to);
            let stretch = Stretch {
                start: start.offset,
                branch: end.offset,
                target: (target.image == end.image).then_some(target.offset),
            };
            self.used += 1;
            let seen = StretchSightings {
                times: 1,
                judged: u64::from(newer.mispredicted.is_some()),
                mispredicted: u64::from(newer.mispredicted == Some(true)),
            };
            self.counts
                .entry((end.image, stretch))
                .or_default()
                .join(seen);
        }
    }

    /// Iterates over all stretches, in no order.
    pub fn iter(&self) -> impl Iterator<Item = StretchCount> + '_ {
        let counts = self.counts.iter();
        counts.map(|((image, stretch), seen)| StretchCount {
            image: *image,
            stretch: *stretch,
            seen: *seen,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branch(from: u64, to: u64, flags: u64) -> TakenBranch {
        TakenBranch::of_entry([from, to, flags], false).expect("executed")
    }

    #[test]
    fn stretches_lie_between_branches_and_what_cannot_be_is_counted() {
        // One image from 0x1000, another from 0x8000, nothing else.
        let locate = |address: ProcessAddress| Location {
            image: ImageId(match address.0 {
                0x1000..0x8000 => 1,
                0x8000..0x9000 => 2,
                _ => 0,
            }),
            offset: ImageOffset(address.0),
        };
        let is_file = |image: ImageId| image.0 > 0;
        let again = branch(0x1040, 0x1010, 2);
        let stack = [
            // Out of the image; twice round; from an unreachable place; the oldest.
            branch(0x1020, 0x8010, 0),
            again,
            branch(0x1040, 0x1010, 1),
            branch(0x1100, 0x1008, 0),
            branch(0x8044, 0x10f0, 0),
            branch(u64::MAX - 5, 0x8040, 0),
        ];
        let mut found = Stretches::default();
        found.add(&stack, locate, is_file);
        found.add(&[again, branch(0x1ff0, 0x2000, 0)], locate, is_file);
        let of = |image, start, branch, target: Option<u64>, (times, judged, mispredicted)| {
            StretchCount {
                image: ImageId(image),
                stretch: Stretch {
                    start: ImageOffset(start),
                    branch: ImageOffset(branch),
                    target: target.map(ImageOffset),
                },
                seen: StretchSightings {
                    times,
                    judged,
                    mispredicted,
                },
            }
        };
        let mut all: Vec<_> = found.iter().collect();
        all.sort_unstable();
        let expected = [
            of(1, 0x1008, 0x1040, Some(0x1010), (1, 1, 1)),
            of(1, 0x1010, 0x1020, None, (1, 0, 0)),
            of(1, 0x1010, 0x1040, Some(0x1010), (1, 1, 0)),
            of(1, 0x10f0, 0x1100, Some(0x1008), (1, 0, 0)),
            of(2, 0x8040, 0x8044, None, (1, 0, 0)),
        ];
        assert_eq!(all, expected);
        assert_eq!((found.stacks, found.used, found.impossible), (2, 5, 1));
    }

    #[test]
    fn flags_are_read_in_either_byte_order() {
        let read = |flags, big| TakenBranch::of_entry([1, 2, flags], big);
        let predicted = |flags, big| read(flags, big).expect("executed").mispredicted;
        for (bit, said) in [(0, Some(true)), (1, Some(false)), (2, None)] {
            assert_eq!(predicted(1 << bit, false), said);
            assert_eq!(predicted(1 << (63 - bit), true), said);
        }
        // On the wrong path; executed, speculated or not.
        for (speculation, executed) in [(1, false), (2, true), (3, true)] {
            assert_eq!(read(speculation << 24, false).is_some(), executed);
            assert_eq!(read(speculation << 38, true).is_some(), executed);
        }
    }
}
