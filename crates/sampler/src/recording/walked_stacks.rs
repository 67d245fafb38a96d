//! Stacks whose frames are places in images. A drain's stacks are added in the order of their
//! callers, so that most lookups cover only the frames that differ from the stack before.

use crate::bpf::frame_words::FrameWord;
use crate::bpf::layout::{Frames, STACK_PIECES};
use crate::recording::collection::Collection;
use profile::StackId;
use rustc_hash::FxHashMap;
use std::iter::successors;

/// The frames of a drain, by number.
#[derive(Default)]
pub(crate) struct DrainedFrames {
    words: Vec<u64>,
    /// Start and length.
    ranges: FxHashMap<u64, (usize, usize)>,
    /// Number of the entry that continues another one.
    next: FxHashMap<u64, u64>,
}

impl DrainedFrames {
    /// Collects all entries that `read` yields, joining those of deep stacks.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn read<E>(
        read: impl FnOnce(&mut dyn FnMut(&u64, Frames)) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut drained = Self::default();
        read(&mut |number, entry| {
            drained.add_words(*number, entry.addresses());
            let next = entry.next(*number);
            drained.next.extend(next.map(|next| (*number, next)));
        })?;
        drained.join_entries();
        Ok(drained)
    }

    fn join_entries(&mut self) {
        let next = std::mem::take(&mut self.next);
        let whole = |first: &u64| {
            let numbers = successors(Some(*first), |number| next.get(number).copied());
            let entries = numbers.take(STACK_PIECES);
            let words = entries.flat_map(|number| self.frames_of(number));
            (*first, words.copied().collect::<Vec<u64>>())
        };
        for (number, words) in next.keys().map(whole).collect::<Vec<_>>() {
            self.add_words(number, &words);
        }
    }

    /// Returns all stacks, by number.
    pub fn stacks(&self) -> impl Iterator<Item = (u64, &[u64])> {
        let numbers = self.ranges.keys().copied();
        numbers.map(|number| (number, self.frames_of(number)))
    }

    fn add_words(&mut self, number: u64, words: &[u64]) {
        self.ranges.insert(number, (self.words.len(), words.len()));
        self.words.extend(words);
    }

    /// Returns the frames, innermost first; empty if the number is unknown.
    pub fn frames_of(&self, number: u64) -> &[u64] {
        let (start, length) = self.ranges.get(&number).copied().unwrap_or_default();
        &self.words[start..start + length]
    }
}

impl Collection {
    /// Adds the user stacks among these numbers that are not known yet and consist of places only.
    pub fn add_walked_users(&mut self, numbers: impl Iterator<Item = u64>, frames: &DrainedFrames) {
        let is_new = |number: &u64| !self.known_stacks.users.contains_key(number);
        let mut new: Vec<(u64, &[u64])> = numbers
            .filter(is_new)
            .map(|number| (number, frames.frames_of(number)))
            .filter(|(_, words)| !words.is_empty())
            .filter(|(_, words)| words.iter().all(|word| FrameWord::is_place(*word)))
            .collect();
        new.sort_unstable_by(|(_, a), (_, b)| a.iter().rev().cmp(b.iter().rev()));
        new.dedup_by_key(|(number, _)| *number);
        let mut path: Vec<Option<StackId>> = Vec::new();
        let mut before: &[u64] = &[];
        for (number, words) in new {
            path.truncate(shared_callers(before, words));
            for depth in (0..words.len() - path.len()).rev() {
                let caller = path.last().copied().flatten();
                // Only addresses need the process and the time.
                let frame = FrameWord::at_depth(words[depth], depth);
                path.push(self.add_word(frame, 0, 0, caller));
            }
            self.known_stacks
                .users
                .insert(number, path.last().copied().flatten());
            before = words;
        }
    }

    /// Returns the stack of these numbers, if its user frames were added.
    pub fn known_stack(
        &mut self,
        user: u64,
        kernel: u64,
        frames: &DrainedFrames,
    ) -> Option<Option<StackId>> {
        let user = match user {
            0 => None,
            number => *self.known_stacks.users.get(&number)?,
        };
        if kernel == 0 {
            return Some(user);
        }
        if let Some(whole) = self.known_stacks.whole.get(&(user, kernel)) {
            return Some(*whole);
        }
        let addresses = frames.frames_of(kernel);
        let whole = self.kernel_stack(addresses, user);
        self.known_stacks.whole.insert((user, kernel), whole);
        Some(whole)
    }
}

/// Returns how many frames two stacks share, counted from the outermost. The innermost frames do
/// not count: they are the program counter, while a caller's frame is at its call, before the
/// return address.
fn shared_callers(a: &[u64], b: &[u64]) -> usize {
    let most = a.len().min(b.len()).saturating_sub(1);
    let pairs = a.iter().rev().zip(b.iter().rev()).take(most);
    pairs.take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::FileIdentity;
    use proptest::prelude::*;

    const PLACE: u64 = 1 << 62 | 2 << 40;

    fn collection() -> Collection {
        let mut collection = Collection::new(1);
        collection.labelled = vec![FileIdentity {
            major: 8,
            minor: 1,
            inode: 7,
            generation: 1,
        }];
        collection
    }

    fn offsets(collection: &Collection, stack: Option<StackId>) -> Vec<u64> {
        let locations = stack.map(|stack| collection.tally.stacks.locations(stack));
        locations
            .into_iter()
            .flatten()
            .map(|location| location.offset.0)
            .collect()
    }

    #[test]
    fn stacks_with_addresses_are_left_to_whoever_knows_the_process() {
        let mut collection = collection();
        let mut frames = DrainedFrames::default();
        frames.add_words(5, &[PLACE | 9, 0x7fff_0000]);
        frames.add_words(6, &[PLACE | 9]);
        collection.add_walked_users([5, 6].into_iter(), &frames);
        assert_eq!(collection.known_stack(5, 0, &frames), None);
        let stack = collection.known_stack(6, 0, &frames).unwrap();
        assert_eq!(offsets(&collection, stack), [9]);
        assert_eq!(collection.known_stack(0, 0, &frames), Some(None));
    }

    proptest! {
        #[test]
        fn deep_stacks_are_put_together(lengths in prop::collection::vec(1..=profile::CallGraph::Tables.deepest(), 1..8)) {
            let stack = |number: usize| -> Vec<u64> {
                (0..lengths[number]).map(|frame| (number << 16 | frame) as u64).collect()
            };
            let drained = DrainedFrames::read(|each| {
                for number in 0..lengths.len() {
                    let words = stack(number);
                    // The first entry comes last, because any order is possible.
                    let entries = words.chunks(127).enumerate().collect::<Vec<_>>();
                    for (entry, _) in entries.into_iter().rev() {
                        let left = &words[entry * 127..];
                        each(&(1000 * number as u64 + 1 + 2 * entry as u64), Frames::of_words(left));
                    }
                }
                Ok::<(), ()>(())
            }).unwrap();
            for number in 0..lengths.len() {
                prop_assert_eq!(drained.frames_of(1000 * number as u64 + 1), stack(number));
            }
        }

        #[test]
        fn stacks_are_the_same_as_when_added_one_by_one(
            stacks in prop::collection::vec(
                (prop::collection::vec(1u64..4, 1..8), prop::collection::vec(1u64..3, 0..3)),
                1..40,
            ),
        ) {
            let mut collection = collection();
            // The second pass has numbers that are known by then.
            for part in [&stacks[..stacks.len() / 2], &stacks[..]] {
                let mut frames = DrainedFrames::default();
                for (number, (user, kernel)) in (1..).zip(part) {
                    let user: Vec<u64> = user.iter().map(|offset| PLACE | (offset * 16)).collect();
                    let kernel: Vec<u64> = kernel.iter().map(|k| 1 << 63 | (k * 16)).collect();
                    frames.add_words(number, &user);
                    frames.add_words(1000 + number, &kernel);
                }
                let numbers = (1..=part.len() as u64).rev();
                collection.add_walked_users(numbers, &frames);
                for (number, (user, kernel)) in (1u64..).zip(part) {
                    let kernel_number = if kernel.is_empty() { 0 } else { 1000 + number };
                    let stack = collection.known_stack(number, kernel_number, &frames).unwrap();
                    let at = |depth: usize, offset: u64| offset * 16 - u64::from(depth > 0);
                    let kernel = kernel.iter().enumerate().map(|(d, k)| 1 << 63 | at(d, *k));
                    let user = user.iter().enumerate().map(|(d, u)| at(d, *u));
                    let expected: Vec<u64> = kernel.chain(user).collect();
                    prop_assert_eq!(offsets(&collection, stack), expected);
                }
            }
        }
    }
}
