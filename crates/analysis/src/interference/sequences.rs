//! Sequences of kinds as hashes that can be joined and shortened.

/// Odd, no more is asked of it: what is hashed is well mixed already.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes two words (the finalizer of a 64-bit hash).
#[inline]
pub(super) fn mix(a: u64, b: u64) -> u64 {
    let mut x = a ^ b.wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(31);
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 32)
}

/// A sequence of kinds: a polynomial over its elements, so that sequences can be joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sequence {
    hash: u64,
    power: u64,
}

impl Sequence {
    pub const EMPTY: Self = Self { hash: 0, power: 1 };

    #[inline]
    pub fn one(kind: u64) -> Self {
        Self {
            hash: kind,
            power: BASE,
        }
    }

    #[inline]
    pub fn then(self, next: Self) -> Self {
        Self {
            hash: self.hash.wrapping_mul(next.power).wrapping_add(next.hash),
            power: self.power.wrapping_mul(next.power),
        }
    }

    /// The sequence in one word.
    #[inline]
    pub fn word(self) -> u64 {
        mix(self.hash, self.power)
    }
}

/// A sequence in which `A A A` is `A`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Collapsed {
    all: Sequence,
    /// The first and the last element; 0 of an empty one.
    first: u64,
    last: u64,
}

impl Collapsed {
    pub const EMPTY: Self = Self {
        all: Sequence::EMPTY,
        first: 0,
        last: 0,
    };

    #[inline]
    pub fn then(self, next: Self) -> Self {
        if next.all == Sequence::EMPTY {
            return self;
        }
        if self.all == Sequence::EMPTY {
            return next;
        }
        let mut all = next.all;
        if self.last == next.first {
            // Without its first element, whose factor is all the others'.
            all.power = all.power.wrapping_mul(INVERSE);
            all.hash = all.hash.wrapping_sub(next.first.wrapping_mul(all.power));
        }
        Self {
            all: self.all.then(all),
            first: self.first,
            last: next.last,
        }
    }

    /// Adds one element.
    #[inline]
    pub fn push(&mut self, kind: u64) {
        if self.last == kind {
            return;
        }
        if self.all == Sequence::EMPTY {
            self.first = kind;
        }
        self.all = self.all.then(Sequence::one(kind));
        self.last = kind;
    }

    #[inline]
    pub fn word(self) -> u64 {
        self.all.word()
    }
}

/// `BASE * INVERSE == 1`, by Newton's iteration.
const INVERSE: u64 = {
    let mut inverse = BASE;
    let mut step = 0;
    while step < 6 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(BASE.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// However a sequence is cut, its parts give its hash; another sequence has another.
        #[test]
        fn parts_give_the_whole(kinds in proptest::collection::vec(1u64..4, 0..40), cuts in proptest::collection::vec(0usize..40, 0..5)) {
            let kinds: Vec<u64> = kinds.iter().map(|k| mix(*k, 7)).collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(kinds.len())).collect();
            cuts.push(kinds.len());
            cuts.sort_unstable();
            let mut exact = Sequence::EMPTY;
            let mut collapsed = Collapsed::EMPTY;
            let mut from = 0;
            for cut in cuts {
                let (mut e, mut c) = (Sequence::EMPTY, Collapsed::EMPTY);
                for kind in &kinds[from..cut] {
                    e = e.then(Sequence::one(*kind));
                    c.push(*kind);
                }
                exact = exact.then(e);
                collapsed = collapsed.then(c);
                from = cut;
            }
            let whole = kinds.iter().fold(Sequence::EMPTY, |s, k| s.then(Sequence::one(*k)));
            prop_assert_eq!(exact, whole);
            let backwards = kinds.iter().rev().fold(Sequence::EMPTY, |s, k| Sequence::one(*k).then(s));
            prop_assert_eq!(backwards.word(), whole.word());
            let mut distinct = kinds.clone();
            distinct.dedup();
            let short = distinct.iter().fold(Sequence::EMPTY, |s, k| s.then(Sequence::one(*k)));
            prop_assert_eq!(collapsed.word(), short.word());
            let mut pushed = Collapsed::EMPTY;
            kinds.iter().for_each(|kind| pushed.push(*kind));
            prop_assert_eq!(pushed, collapsed);
        }
    }
}
