//! Branch stacks that `perf record -b` wrote.

use super::file::{Facts, PerfRecord};
use super::maps::Maps;
use super::wire::{SAMPLE, next_branch};
use super::{file, read_changes};
use crate::read::error::{ReadError, ReadFault};
use crate::read::input::ProfileInput;
use crate::read::options::ReadLimits;
use profile::{Image, ImageId, ImageKind, Stretch, StretchSightings, Stretches, TakenBranch};
use rustc_hash::FxHashMap;
use std::path::Path;

/// The branch stacks of a file.
#[derive(Clone, Debug, Default)]
pub struct BranchStacks {
    images: Vec<Image>,
    /// Stretches executed between the branches.
    pub stretches: Stretches,
}

impl BranchStacks {
    /// Reads a `perf.data`.
    ///
    /// # Errors
    /// If it cannot be read or is damaged (with the offset), exceeds the limits, or has no stacks
    /// of all taken branches.
    pub fn read_file(path: &Path, limits: &ReadLimits) -> Result<Self, ReadError> {
        read_branch_stacks(path, limits).map_err(|fault| fault.in_file(path, "perf.data"))
    }

    /// Returns the stretches in an image, with their counts. Images are the same if their build-ids
    /// are equal or, if one is unknown, their paths.
    pub fn stretches_in<'a>(
        &'a self,
        image: &'a Image,
    ) -> impl Iterator<Item = (Stretch, StretchSightings)> + 'a {
        let same = |id: ImageId| {
            let own = self.images.get(id.0 as usize);
            own.is_some_and(|own| match (&own.build_id, &image.build_id) {
                (Some(own), Some(other)) => own == other,
                _ => own.path == image.path,
            })
        };
        let counts = self.stretches.iter();
        counts.filter_map(move |one| same(one.image).then_some((one.stretch, one.seen)))
    }
}

fn read_branch_stacks(path: &Path, limits: &ReadLimits) -> Result<BranchStacks, ReadFault> {
    let (facts, mut maps, _) = read_changes(path, limits, false)?;
    let all = facts.events.iter().map(|event| event.attr.branch_stacks());
    if !all.clone().any(|all| all == Some(true)) {
        let what = match all.flatten().next() {
            Some(_) => "its branch stacks have not all branches that were taken",
            None => "no branch stacks",
        };
        return Err(ReadFault::Lacks(format!(
            "{what}; record with perf record -b, on a processor that has them"
        )));
    }
    let mut found = BranchStacks {
        images: maps.images.clone(),
        ..BranchStacks::default()
    };
    let ids = facts.event_positions();
    let (mut samples, mut branches) = (0_u64, Vec::new());
    file::scan_records(
        &mut ProfileInput::open_file(path, limits)?,
        limits,
        |record, _| {
            if record.kind == SAMPLE {
                samples += 1;
                add_sample_stack(&record, &facts, &ids, &mut maps, &mut found, &mut branches);
            }
            if found.stretches.kinds() > Stretches::kinds_in(limits.memory) {
                Err(ReadFault::too_large(
                    "its branches need more memory than the limit allows",
                    record.at,
                ))
            } else {
                Ok(())
            }
        },
    )?;
    match found.stretches.used {
        0 => Err(ReadFault::Lacks(format!(
            "no two branches of a program in the branch stacks of {samples} samples"
        ))),
        _ => Ok(found),
    }
}

/// Adds the stack of a sample, if it has one.
fn add_sample_stack(
    record: &PerfRecord<'_>,
    facts: &Facts,
    ids: &FxHashMap<u64, usize>,
    maps: &mut Maps,
    found: &mut BranchStacks,
    branches: &mut Vec<TakenBranch>,
) {
    let event = facts.event_of(record.body, ids);
    let event = event.filter(|(_, event)| event.attr.branch_stacks() == Some(true));
    let Some(sample) = event.and_then(|(_, event)| event.attr.read_sample(record.body)) else {
        return;
    };
    let Some(mut stack) = sample
        .branches
        .filter(|stack| !stack.rest_of_bytes().is_empty())
    else {
        return;
    };
    branches.clear();
    while let Some(entry) = next_branch(&mut stack) {
        branches.extend(entry);
    }
    let space = maps.space_at(sample.pid, sample.time);
    let images = &found.images;
    let is_file = |image: ImageId| {
        let image = images.get(image.0 as usize);
        image.is_some_and(|image| image.kind == ImageKind::File)
    };
    let locate = |address: profile::ProcessAddress| {
        let address = address.0;
        maps.locate_address(&space, address, address >> 63 == 1)
    };
    found.stretches.add(branches, locate, is_file);
}
