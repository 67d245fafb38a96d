//! Bounds the call tree of an epoch: samples with rare stacks keep their place and lose their
//! callers.

use profile::{
    ImageId, ImageKind, ImageOffset, Location, RARE_STACKS, RARE_STACKS_WARNING, RareStacks,
    Recording, StackId, rare_stacks_image, rare_stacks_symbol, stack_importance,
};
use rustc_hash::FxHashMap;

/// Limits the call tree of a recording to `most_callers` frames beside one for each of its places.
pub(crate) fn fold_rare_stacks(recording: &mut Recording, most_callers: usize) {
    let uses: Vec<(StackId, u64)> = used_stacks(recording).collect();
    let stacks = std::mem::take(&mut recording.stacks);
    let rare = match RareStacks::find_rare(stacks, &uses, most_callers) {
        Ok(rare) => rare,
        Err(stacks) => {
            recording.stacks = stacks;
            return;
        }
    };
    drop(uses);
    let mut folded = rare.fold(Location {
        image: marker_image(recording),
        offset: ImageOffset(0),
    });
    for sample in &mut recording.samples {
        sample.stack = folded.place_stack(sample.stack);
        if let Some(waker) = &mut sample.waker {
            waker.stack = waker.stack.map(|stack| folded.place_stack(stack));
        }
    }
    recording.stacks = folded.finish();
    join_equal_samples(recording);
    let said = |warning: &String| warning == RARE_STACKS_WARNING;
    if !recording.warnings.iter().any(said) {
        recording.warnings.push(RARE_STACKS_WARNING.to_owned());
    }
}

fn used_stacks(recording: &Recording) -> impl Iterator<Item = (StackId, u64)> + '_ {
    recording.samples.iter().flat_map(|sample| {
        let importance = stack_importance(sample.count, sample.weight);
        let waker = sample.waker.and_then(|waker| waker.stack);
        let stacks = [Some(sample.stack), waker].into_iter().flatten();
        stacks.map(move |stack| (stack, importance))
    })
}

/// Returns the image of the frames that stand for dropped callers; adds it if need be.
fn marker_image(recording: &mut Recording) -> ImageId {
    let known = recording
        .images
        .iter()
        .position(|image| image.kind == ImageKind::Jit && image.path == RARE_STACKS);
    let index = known.unwrap_or(recording.images.len());
    let image = ImageId(index as u32);
    if known.is_none() {
        recording.images.push(rare_stacks_image());
        recording.symbols.push(rare_stacks_symbol(image));
        recording.symbols.sort_unstable();
    }
    image
}

/// Merges samples that differ only in their counts.
fn join_equal_samples(recording: &mut Recording) {
    let samples = std::mem::take(&mut recording.samples);
    let mut positions = FxHashMap::default();
    for sample in samples {
        let key = profile::Sample {
            count: 0,
            weight: 0,
            ..sample
        };
        let joined = &mut recording.samples;
        let position = *positions.entry(key).or_insert_with(|| {
            joined.push(key);
            joined.len() - 1
        });
        let joined = &mut joined[position];
        joined.count = joined.count.saturating_add(sample.count);
        joined.weight = joined.weight.saturating_add(sample.weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{CallGraph, Collector, EventId, Host, Image, Sample, Target};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Makes a recording of stacks, outermost frame first, each with its number of samples.
    fn recording(stacks: &[(Vec<u64>, u64)]) -> Recording {
        let (host, target) = (Host::default(), Target::Machine);
        let mut made = Recording::new(host, target, Collector::Bpf, CallGraph::Tables);
        made.images.push(Image::unknown());
        let process = made.names.intern("x");
        for (frames, count) in stacks {
            let at = |offset: &u64| Location {
                image: ImageId(0),
                offset: ImageOffset(*offset),
            };
            let stack = frames.iter().fold(None, |caller, offset| {
                Some(made.stacks.intern(at(offset), caller))
            });
            let stack = stack.unwrap();
            made.samples
                .push(Sample::new(EventId(0), process, stack, *count));
        }
        join_equal_samples(&mut made);
        made
    }

    /// Returns the stacks with their counts, outermost first; `None` stands for dropped callers.
    fn stacks(recording: &Recording) -> BTreeMap<Vec<Option<u64>>, u64> {
        let mut found = BTreeMap::new();
        for sample in &recording.samples {
            let locations = recording.stacks.locations(sample.stack);
            let mut frames: Vec<Option<u64>> = locations
                .map(|at| (at.image == ImageId(0)).then_some(at.offset.0))
                .collect();
            frames.reverse();
            *found.entry(frames).or_default() += sample.count;
        }
        found
    }

    #[test]
    fn a_rare_stack_keeps_its_place_and_the_callers_that_are_not_rare() {
        let mut recording = recording(&[
            (vec![1, 2, 3], 9),
            (vec![1, 2, 4, 5], 1),
            (vec![1, 2, 6, 5], 2),
            (vec![7, 8], 1),
            (vec![9], 1),
        ]);
        fold_rare_stacks(&mut recording, 4);
        let expected = [
            (vec![Some(1), Some(2), Some(3)], 9),
            (vec![Some(1), Some(2), None, Some(5)], 3),
            (vec![None, Some(8)], 1),
            (vec![Some(9)], 1),
        ];
        assert_eq!(stacks(&recording), BTreeMap::from(expected));
        assert_eq!(recording.warnings, [RARE_STACKS_WARNING]);
        // A second time changes nothing.
        let before = stacks(&recording);
        fold_rare_stacks(&mut recording, 1);
        let after = stacks(&recording);
        assert!(
            after
                .keys()
                .all(|s| s.iter().filter(|f| f.is_none()).count() <= 1)
        );
        assert_eq!(before.values().sum::<u64>(), after.values().sum::<u64>());
        assert_eq!((recording.warnings.len(), recording.images.len()), (1, 2));
    }

    proptest! {
        #[test]
        fn places_are_exact_and_the_tree_fits(
            made in prop::collection::vec((prop::collection::vec(1u64..6, 1..9), 1u64..50), 1..60),
            most in 1usize..80, // callers
        ) {
            let mut folded = recording(&made);
            let whole = stacks(&folded);
            let places = |stacks: &BTreeMap<Vec<Option<u64>>, u64>| {
                let mut places: BTreeMap<Option<u64>, u64> = BTreeMap::new();
                for (stack, count) in stacks {
                    *places.entry(*stack.last().unwrap()).or_default() += count;
                }
                places
            };
            fold_rare_stacks(&mut folded, most);
            let kept = stacks(&folded);
            prop_assert_eq!(places(&kept), places(&whole));
            // At most five places, each without callers and below the marker, and the marker.
            prop_assert!(folded.stacks.len() <= (most + 5).max(11));
            for (stack, count) in &kept {
                match stack.iter().position(Option::is_none) {
                    // An unfolded stack keeps its samples.
                    None => prop_assert_eq!(whole.get(stack), Some(count)),
                    Some(at) => prop_assert_eq!(at + 2, stack.len()),
                }
            }
        }
    }
}
