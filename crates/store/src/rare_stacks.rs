//! Bounds the call tree of an epoch: of samples whose stacks are rare the place stays and the callers are left out.
//!
//! Where samples fell, how many, and in which process is never changed, so that all flat figures are exact. A stack is rare if it
//! has fewer samples than a threshold, which is the lowest power of two that makes the tree fit. Such a sample keeps those callers
//! that have as many samples together; between them and the place stands one frame, [`RARE_STACKS`].

use profile::{
    EmbeddedSymbol, Image, ImageId, ImageKind, ImageOffset, Location, Recording, StackId,
    StackTable,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// The frame in place of callers that are left out; the name of its image, too.
pub const RARE_STACKS: &str = "[rare stacks]";

/// Warning of a recording that has such frames.
const WARNING: &str = "stacks that are rare in this epoch lack callers, so that it stays small: [rare stacks] stands for them (vitalfew report --callers '[rare stacks]'); places and their counts are exact";

/// Makes the call tree of a recording take so many frames beside one for each of its places.
pub(crate) fn fold_rare_stacks(recording: &mut Recording, most_callers: usize) {
    let frames = recording.stacks.frames();
    if frames.len() <= most_callers || frames.iter().all(|frame| frame.caller.is_none()) {
        return;
    }
    let places: FxHashSet<Location> = used_stacks(recording)
        .map(|stack| recording.stacks.frame(stack).location)
        .collect();
    let most_frames = most_callers + places.len();
    if frames.len() <= most_frames {
        return;
    }
    let marker = Location {
        image: marker_image(recording),
        offset: ImageOffset(0),
    };
    let tree = CountedTree::new(recording, marker);
    let highest = tree.totals.iter().copied().max().unwrap_or(0);
    let mut threshold = 2u64;
    while threshold <= highest && tree.frames_kept(recording, threshold) > most_frames {
        threshold = threshold.saturating_mul(2);
    }
    tree.fold(recording, threshold);
    if !recording.warnings.iter().any(|warning| warning == WARNING) {
        recording.warnings.push(WARNING.to_owned());
    }
}

/// The image of the frames that stand for callers, which is added if there is none.
fn marker_image(recording: &mut Recording) -> ImageId {
    let known = recording
        .images
        .iter()
        .position(|image| image.kind == ImageKind::Jit && image.path == RARE_STACKS);
    let index = known.unwrap_or(recording.images.len());
    let image = ImageId(index as u32);
    if known.is_none() {
        recording.images.push(Image {
            kind: ImageKind::Jit,
            path: RARE_STACKS.to_owned(),
            build_id: None,
            file: None,
            gone: false,
        });
        recording.symbols.push(EmbeddedSymbol {
            image,
            start: ImageOffset(0),
            end: ImageOffset(1),
            name: RARE_STACKS.to_owned(),
        });
        recording.symbols.sort_unstable();
    }
    image
}

/// The stacks of a recording, each with the number of its samples and those of the stacks that it called.
struct CountedTree {
    marker: Location,
    totals: Vec<u64>,
}

impl CountedTree {
    fn new(recording: &Recording, marker: Location) -> Self {
        let frames = recording.stacks.frames();
        let mut totals = vec![0u64; frames.len()];
        for sample in &recording.samples {
            let waker = sample.waker.and_then(|waker| waker.stack);
            for stack in [Some(sample.stack), waker].into_iter().flatten() {
                let total = &mut totals[stack.0 as usize];
                *total = total.saturating_add(sample.count);
            }
        }
        // A caller comes before what it called.
        for (index, frame) in frames.iter().enumerate().rev() {
            if let Some(caller) = frame.caller {
                let own = totals[index];
                let total = &mut totals[caller.0 as usize];
                *total = total.saturating_add(own);
            }
        }
        Self { marker, totals }
    }

    /// Returns whether a stack stays as it is. One without callers has nothing to lose.
    fn is_kept(&self, stacks: &StackTable, stack: StackId, threshold: u64) -> bool {
        self.totals[stack.0 as usize] >= threshold || stacks.frame(stack).caller.is_none()
    }

    /// The callers of a rare stack that stay.
    fn kept_callers(&self, stacks: &StackTable, stack: StackId, threshold: u64) -> Option<StackId> {
        let mut next = stacks.frame(stack).caller;
        while let Some(caller) = next {
            let frame = stacks.frame(caller);
            // What stands in place of callers stands there once.
            if self.totals[caller.0 as usize] >= threshold && frame.location != self.marker {
                return next;
            }
            next = frame.caller;
        }
        None
    }

    /// Returns the number of frames that a threshold would leave.
    fn frames_kept(&self, recording: &Recording, threshold: u64) -> usize {
        let stacks = &recording.stacks;
        let ids = (0..stacks.len() as u32).map(StackId);
        let kept = ids.filter(|id| self.totals[id.0 as usize] >= threshold);
        let (mut anchors, mut places) = (FxHashSet::default(), FxHashSet::default());
        let mut alone = FxHashSet::default();
        for stack in used_stacks(recording) {
            if self.totals[stack.0 as usize] >= threshold {
                continue;
            }
            if self.is_kept(stacks, stack, threshold) {
                alone.insert(stack);
                continue;
            }
            let anchor = self.kept_callers(stacks, stack, threshold);
            anchors.insert(anchor);
            places.insert((anchor, stacks.frame(stack).location));
        }
        kept.count() + alone.len() + anchors.len() + places.len()
    }

    fn fold(&self, recording: &mut Recording, threshold: u64) {
        let old = std::mem::take(&mut recording.stacks);
        let mut folded = FoldedStacks {
            new: StackTable::new(),
            moved: vec![None; old.len()],
            old: &old,
        };
        let mut place = |stack: StackId| {
            if self.is_kept(&old, stack, threshold) {
                return folded.copy_stack(stack);
            }
            let anchor = self.kept_callers(&old, stack, threshold);
            let anchor = anchor.map(|anchor| folded.copy_stack(anchor));
            let marker = folded.new.intern(self.marker, anchor);
            let location = old.frame(stack).location;
            match location == self.marker {
                true => marker,
                false => folded.new.intern(location, Some(marker)),
            }
        };
        for sample in &mut recording.samples {
            sample.stack = place(sample.stack);
            if let Some(waker) = &mut sample.waker {
                waker.stack = waker.stack.map(&mut place);
            }
        }
        recording.stacks = folded.new;
        join_equal_samples(recording);
    }
}

fn used_stacks(recording: &Recording) -> impl Iterator<Item = StackId> + '_ {
    recording.samples.iter().flat_map(|sample| {
        let waker = sample.waker.and_then(|waker| waker.stack);
        [Some(sample.stack), waker].into_iter().flatten()
    })
}

/// Stacks on their way into a new table.
struct FoldedStacks<'a> {
    old: &'a StackTable,
    new: StackTable,
    moved: Vec<Option<StackId>>,
}

impl FoldedStacks<'_> {
    /// Copies a stack with all its callers.
    fn copy_stack(&mut self, stack: StackId) -> StackId {
        let mut path = Vec::new();
        let mut next = Some(stack);
        let mut copied = None;
        while let Some(id) = next {
            if let Some(known) = self.moved[id.0 as usize] {
                copied = Some(known);
                break;
            }
            path.push(id);
            next = self.old.frame(id).caller;
        }
        for id in path.into_iter().rev() {
            let new = self.new.intern(self.old.frame(id).location, copied);
            self.moved[id.0 as usize] = Some(new);
            copied = Some(new);
        }
        // A stack is a frame at least.
        copied.unwrap_or(StackId(0))
    }
}

/// Makes one of samples that differ in nothing but their counts any more.
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
    use profile::{CallGraph, Collector, EventId, Host, Sample, Target};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A recording of stacks, outermost frame first, with how many samples each has.
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

    /// The stacks with their counts, outermost first; `None` stands for callers that are left out.
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
        assert_eq!(recording.warnings, [WARNING]);
        // Once more does nothing: what is left out is left out once.
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
            // Five places at most, each without callers and below what stands for them, and that.
            prop_assert!(folded.stacks.len() <= (most + 5).max(11));
            for (stack, count) in &kept {
                match stack.iter().position(Option::is_none) {
                    // What is not folded has the samples that it had.
                    None => prop_assert_eq!(whole.get(stack), Some(count)),
                    Some(at) => prop_assert_eq!(at + 2, stack.len()),
                }
            }
        }
    }
}
