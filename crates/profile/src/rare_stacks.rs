//! A bound on the size of call trees: samples with rare stacks keep their place and lose callers.
//!
//! The places, numbers and processes of samples never change, so that all flat figures are exact. A
//! stack is rare if it has fewer samples than a threshold, the lowest power of two with which the
//! tree fits. Such a sample keeps those callers that reach the threshold together; one frame,
//! [`RARE_STACKS`], stands between them and the place.

use crate::{
    EmbeddedSymbol, Image, ImageId, ImageKind, ImageOffset, Location, Recording, StackId,
    StackTable,
};
use rustc_hash::FxHashSet;

/// The frame in place of callers that are left out; also the name of its image.
pub const RARE_STACKS: &str = "[rare stacks]";

/// Warning of a recording that has such frames.
pub const RARE_STACKS_WARNING: &str = "stacks that are rare lack callers, so that memory stays bounded: [rare stacks] stands for them (vitalfew report --callers '[rare stacks]'); places and their counts are exact";

/// Nanoseconds of a wait that count as one sample, so that a single long wait is not rare.
const WAIT_NS: u64 = 1_000_000;

/// Returns the weight of a sample in the decision which stacks are rare.
pub fn stack_importance(count: u64, weight: u64) -> u64 {
    count.max(weight / WAIT_NS)
}

/// Returns the image of the frames that stand for callers.
pub fn rare_stacks_image() -> Image {
    Image {
        kind: ImageKind::Jit,
        path: RARE_STACKS.to_owned(),
        build_id: None,
        file: None,
        gone: false,
    }
}

/// Returns the name of such a frame, which is at offset 0 of its image.
pub fn rare_stacks_symbol(image: ImageId) -> EmbeddedSymbol {
    EmbeddedSymbol {
        image,
        start: ImageOffset(0),
        end: ImageOffset(1),
        name: RARE_STACKS.to_owned(),
    }
}

impl Recording {
    /// Returns the share of samples that lack callers because their stacks are rare, 0 to 1.
    pub fn rare_stacks_share(&self) -> f64 {
        let is_marker = |image: &Image| image.kind == ImageKind::Jit && image.path == RARE_STACKS;
        let Some(marker) = self.images.iter().position(is_marker) else {
            return 0.0;
        };
        let mut is_cut: Vec<bool> = Vec::with_capacity(self.stacks.len());
        for frame in self.stacks.frames() {
            // A caller comes before its callees.
            let below = frame.caller.is_some_and(|caller| is_cut[caller.0 as usize]);
            is_cut.push(below || frame.location.image.0 as usize == marker);
        }
        let samples = |cut: &dyn Fn(StackId) -> bool| {
            let counted = self.samples.iter().filter(|sample| cut(sample.stack));
            counted.fold(0u64, |sum, sample| sum.saturating_add(sample.count))
        };
        let all = samples(&|_| true);
        let cut = samples(&|stack| is_cut[stack.0 as usize]);
        cut as f64 / all.max(1) as f64
    }
}

/// A table of stacks with too many frames.
pub struct RareStacks {
    stacks: StackTable,
    /// The stacks of samples.
    used: Vec<StackId>,
    /// By stack: its samples, including those of the stacks that it called.
    totals: Vec<u64>,
    most_frames: usize,
}

impl RareStacks {
    /// Takes the stacks if they have more than `most_callers` frames in addition to one for each
    /// place; `uses` are the stacks of samples, each with its [importance](stack_importance).
    ///
    /// # Errors
    /// Returns the stacks if they are few enough.
    pub fn find_rare(
        stacks: StackTable,
        uses: &[(StackId, u64)],
        most_callers: usize,
    ) -> Result<Self, StackTable> {
        let frames = stacks.frames();
        if frames.len() <= most_callers || frames.iter().all(|frame| frame.caller.is_none()) {
            return Err(stacks);
        }
        let places = uses.iter().map(|(stack, _)| stacks.frame(*stack).location);
        let places: FxHashSet<Location> = places.collect();
        let most_frames = most_callers + places.len();
        if frames.len() <= most_frames {
            return Err(stacks);
        }
        let totals = total_importance(&stacks, uses);
        Ok(Self {
            stacks,
            used: uses.iter().map(|(stack, _)| *stack).collect(),
            totals,
            most_frames,
        })
    }

    /// Leaves out callers of rare stacks; `marker` is the place that stands for them.
    pub fn fold(self, marker: Location) -> FoldedStacks {
        let highest = self.totals.iter().copied().max().unwrap_or(0);
        let mut threshold = 2u64;
        while threshold <= highest && self.frames_kept(threshold, marker) > self.most_frames {
            threshold = threshold.saturating_mul(2);
        }
        FoldedStacks {
            new: StackTable::new(),
            moved: vec![None; self.stacks.len()],
            old: self,
            threshold,
            marker,
        }
    }

    /// Returns whether a stack stays unchanged. A stack without callers has nothing to lose.
    fn is_kept(&self, stack: StackId, threshold: u64) -> bool {
        self.totals[stack.0 as usize] >= threshold || self.stacks.frame(stack).caller.is_none()
    }

    /// Returns the callers of a rare stack that stay.
    fn kept_callers(&self, stack: StackId, threshold: u64, marker: Location) -> Option<StackId> {
        let mut next = self.stacks.frame(stack).caller;
        while let Some(caller) = next {
            let frame = self.stacks.frame(caller);
            // The frame in place of callers stands there only once.
            if self.totals[caller.0 as usize] >= threshold && frame.location != marker {
                return next;
            }
            next = frame.caller;
        }
        None
    }

    /// Returns the number of frames that a threshold would leave.
    fn frames_kept(&self, threshold: u64, marker: Location) -> usize {
        let kept = self.totals.iter().filter(|total| **total >= threshold);
        let (mut anchors, mut places) = (FxHashSet::default(), FxHashSet::default());
        let mut alone = FxHashSet::default();
        for stack in self.used.iter().copied() {
            if self.totals[stack.0 as usize] >= threshold {
                continue;
            }
            if self.is_kept(stack, threshold) {
                alone.insert(stack);
                continue;
            }
            let anchor = self.kept_callers(stack, threshold, marker);
            anchors.insert(anchor);
            places.insert((anchor, self.stacks.frame(stack).location));
        }
        kept.count() + alone.len() + anchors.len() + places.len()
    }
}

fn total_importance(stacks: &StackTable, uses: &[(StackId, u64)]) -> Vec<u64> {
    let mut totals = vec![0u64; stacks.len()];
    for (stack, importance) in uses {
        let total = &mut totals[stack.0 as usize];
        *total = total.saturating_add(*importance);
    }
    // A caller comes before its callees.
    for (index, frame) in stacks.frames().iter().enumerate().rev() {
        if let Some(caller) = frame.caller {
            let own = totals[index];
            let total = &mut totals[caller.0 as usize];
            *total = total.saturating_add(own);
        }
    }
    totals
}

/// Stacks being copied into a smaller table.
pub struct FoldedStacks {
    old: RareStacks,
    threshold: u64,
    marker: Location,
    new: StackTable,
    moved: Vec<Option<StackId>>,
}

impl FoldedStacks {
    /// Returns the stack of a sample in the smaller table.
    pub fn place_stack(&mut self, stack: StackId) -> StackId {
        let (threshold, marker) = (self.threshold, self.marker);
        if self.old.is_kept(stack, threshold) {
            return self.copy_stack(stack);
        }
        let anchor = self.old.kept_callers(stack, threshold, marker);
        let anchor = anchor.map(|anchor| self.copy_stack(anchor));
        let marked = self.new.intern(marker, anchor);
        let location = self.old.stacks.frame(stack).location;
        if location == marker {
            marked
        } else {
            self.new.intern(location, Some(marked))
        }
    }

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
            next = self.old.stacks.frame(id).caller;
        }
        for id in path.into_iter().rev() {
            let new = self.new.intern(self.old.stacks.frame(id).location, copied);
            self.moved[id.0 as usize] = Some(new);
            copied = Some(new);
        }
        // A stack has at least one frame.
        copied.unwrap_or(StackId(0))
    }

    /// Returns the smaller table.
    pub fn finish(self) -> StackTable {
        self.new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CallGraph, Collector, EventId, Host, Sample, Target};

    #[test]
    fn long_waits_are_not_rare() {
        assert_eq!(stack_importance(3, 3), 3);
        assert_eq!(stack_importance(1, 20 * WAIT_NS + 1), 20);
    }

    #[test]
    fn the_share_without_callers_is_of_samples() {
        let (host, target) = (Host::default(), Target::Machine);
        let mut recording = Recording::new(host, target, Collector::Bpf, CallGraph::Tables);
        recording.images = vec![Image::unknown()];
        let process = recording.names.intern("x");
        let at = |image, offset| Location {
            image: ImageId(image),
            offset: ImageOffset(offset),
        };
        let add = |recording: &mut Recording, stack: &[Location], count: u64| {
            let stack = recording.stacks.intern_stack(stack).unwrap();
            let sample = Sample::new(EventId(0), process, stack, count);
            recording.samples.push(sample);
        };
        add(&mut recording, &[at(0, 1), at(0, 2)], 6);
        assert_eq!(recording.rare_stacks_share(), 0.0);
        recording.images.push(rare_stacks_image());
        add(&mut recording, &[at(0, 1), at(1, 0), at(0, 2)], 2);
        assert_eq!(recording.rare_stacks_share(), 0.25);
    }
}
