//! Branch stacks (Intel's and AMD's LBR, Arm's BRBE) of what `perf record -b` wrote: the last
//! branches that were taken before each sample. From where one led, execution went straight on to
//! the next.

use super::file::{Facts, Record};
use super::maps::Maps;
use super::wire::{Branch, SAMPLE, branch};
use super::{changes, file};
use crate::tree::ReadError;
use crate::tree::error::Fault;
use crate::tree::input::Input;
use crate::tree::options::Limits;
use profile::{Image, ImageId, ImageKind, ImageOffset, Location};
use rustc_hash::FxHashMap;
use std::path::Path;

/// Memory that one kind of stretch takes at most, while the table that it is in grows.
const SIZE: u64 = 168;
/// More instructions than this are not executed without a branch: there was one that is missing.
const LONGEST: u64 = 1 << 16;

/// What was executed between two branches, and where the second led. Offsets are in the image's
/// file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stretch {
    /// Where the branch before led.
    pub start: ImageOffset,
    /// The last instruction, a branch that was taken (or where the processor was interrupted).
    pub branch: ImageOffset,
    /// Where it led; `None` if out of the image.
    pub target: Option<ImageOffset>,
}

/// The branch stacks of a file.
#[derive(Clone, Debug, Default)]
pub struct BranchStacks {
    images: Vec<Image>,
    counts: FxHashMap<(ImageId, Stretch), u64>,
    /// Samples with a branch stack.
    pub stacks: u64,
    /// Stretches in files that were counted.
    pub used: u64,
    /// Pairs of branches that no execution can have led between, as a missing or made-up branch
    /// leaves them.
    pub impossible: u64,
}

impl BranchStacks {
    /// Reads a `perf.data`.
    ///
    /// # Errors
    /// If it cannot be read or is damaged (with the offset), exceeds the limits, or has no stacks
    /// of all taken branches.
    pub fn read(path: &Path, limits: &Limits) -> Result<Self, ReadError> {
        read(path, limits).map_err(|fault| fault.of(path, "perf.data"))
    }

    /// The stretches in an image, and how often each was seen. It is the same image if the
    /// build-ids are, or, where one is not known, the paths.
    pub fn of<'a>(&'a self, image: &'a Image) -> impl Iterator<Item = (Stretch, u64)> + 'a {
        let same = |id: &ImageId| {
            let own = self.images.get(id.0 as usize);
            own.is_some_and(|own| match (&own.build_id, &image.build_id) {
                (Some(own), Some(other)) => own == other,
                _ => own.path == image.path,
            })
        };
        let counts = self.counts.iter();
        counts.filter_map(move |((id, stretch), times)| same(id).then_some((*stretch, *times)))
    }

    /// Adds the stack of a sample, the newest branch first. Of the oldest only its target is used:
    /// what led to it is not known.
    fn add(&mut self, branches: &[Branch], mut locate: impl FnMut(u64) -> Location) {
        self.stacks += 1;
        for pair in branches.windows(2) {
            let [newer, older] = pair else { continue };
            let (start, end) = (locate(older.to), locate(newer.from));
            let is_file = |at: &Location| {
                let image = self.images.get(at.image.0 as usize);
                image.is_some_and(|image| image.kind == ImageKind::File)
            };
            if !is_file(&start) && !is_file(&end) {
                continue;
            }
            let length = newer.from.wrapping_sub(older.to);
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
            *self.counts.entry((end.image, stretch)).or_default() += 1;
        }
    }
}

fn read(path: &Path, limits: &Limits) -> Result<BranchStacks, Fault> {
    let (facts, mut maps) = changes(path, limits)?;
    let all = facts.events.iter().map(|event| event.attr.branch_stacks());
    if !all.clone().any(|all| all == Some(true)) {
        let what = match all.flatten().next() {
            Some(_) => "its branch stacks have not all branches that were taken",
            None => "no branch stacks",
        };
        return Err(Fault::Lacks(format!(
            "{what}; record with perf record -b, on a processor that has them"
        )));
    }
    let mut found = BranchStacks {
        images: maps.images.clone(),
        ..BranchStacks::default()
    };
    let ids = facts.ids();
    let (mut samples, mut branches) = (0_u64, Vec::new());
    file::scan(&mut Input::open(path, limits)?, limits, |record, _| {
        if record.kind == SAMPLE {
            samples += 1;
            sample(&record, &facts, &ids, &mut maps, &mut found, &mut branches);
        }
        match found.counts.len() as u64 > limits.memory / SIZE {
            true => Err(Fault::too_large(
                "its branches need more memory than the limit allows",
                record.at,
            )),
            false => Ok(()),
        }
    })?;
    match found.used {
        0 => Err(Fault::Lacks(format!(
            "no two branches of a program in the branch stacks of {samples} samples"
        ))),
        _ => Ok(found),
    }
}

/// Adds the stack of a sample, if it has one.
fn sample(
    record: &Record<'_>,
    facts: &Facts,
    ids: &FxHashMap<u64, usize>,
    maps: &mut Maps,
    found: &mut BranchStacks,
    branches: &mut Vec<Branch>,
) {
    let event = facts.event_of(record.body, ids);
    let event = event.filter(|(_, event)| event.attr.branch_stacks() == Some(true));
    let Some(sample) = event.and_then(|(_, event)| event.attr.sample(record.body)) else {
        return;
    };
    let Some(mut stack) = sample.branches.filter(|stack| !stack.rest().is_empty()) else {
        return;
    };
    branches.clear();
    branches.extend(std::iter::from_fn(|| branch(&mut stack)).filter(|one| one.retired));
    let space = maps.space(sample.pid, sample.time);
    found.add(branches, |address| {
        maps.locate(&space, address, address >> 63 == 1)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_lie_between_branches_and_what_cannot_be_is_counted() {
        let mut found = BranchStacks {
            images: vec![Image::unknown(), Image::unknown(), Image::unknown()],
            ..BranchStacks::default()
        };
        for image in &mut found.images[1..] {
            image.kind = ImageKind::File;
        }
        // One image from 0x1000, another from 0x8000, nothing else.
        let locate = |address: u64| Location {
            image: ImageId(match address {
                0x1000..0x8000 => 1,
                0x8000..0x9000 => 2,
                _ => 0,
            }),
            offset: ImageOffset(address),
        };
        let branch = |from, to| Branch {
            from,
            to,
            retired: true,
        };
        let again = branch(0x1040, 0x1010);
        let stack = [
            // Out of the image; twice round; from a place that cannot be reached; the oldest.
            branch(0x1020, 0x8010),
            again,
            again,
            branch(0x1100, 0x1008),
            branch(0x8044, 0x10f0),
            branch(u64::MAX - 5, 0x8040),
        ];
        found.add(&stack, locate);
        found.add(&[again, branch(0x1ff0, 0x2000)], locate);
        let of = |start, branch, target: Option<u64>| Stretch {
            start: ImageOffset(start),
            branch: ImageOffset(branch),
            target: target.map(ImageOffset),
        };
        let mut all: Vec<_> = found
            .counts
            .iter()
            .map(|(key, n)| (key.0.0, key.1, *n))
            .collect();
        all.sort_unstable();
        let expected = [
            (1, of(0x1008, 0x1040, Some(0x1010)), 1),
            (1, of(0x1010, 0x1020, None), 1),
            (1, of(0x1010, 0x1040, Some(0x1010)), 1),
            (1, of(0x10f0, 0x1100, Some(0x1008)), 1),
            (2, of(0x8040, 0x8044, None), 1),
        ];
        assert_eq!(all, expected);
        assert_eq!((found.stacks, found.used, found.impossible), (2, 5, 1));
    }
}
