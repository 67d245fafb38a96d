//! What lies in what: the executions of a thread, in the order of their ends, that no later one has
//! contained yet.
//!
//! An execution contains those before it that began after it did. They stand at the top, so that each
//! item is looked at once. What no traced block ever contains (a thread's main loop) would pile up:
//! when there are too many, the older half is joined in pairs. The hash of a sequence is made so that
//! those of its parts give it, and a block that contains all of a joined pair is none the worse.

use super::waits::WaitSum;
use std::sync::Arc;

/// So many items stand side by side before the older half is joined.
const CAPACITY: usize = 2048;

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
    pub fn one(kind: u64) -> Self {
        Self {
            all: Sequence::one(kind),
            first: kind,
            last: kind,
        }
    }

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

/// An item, or several joined.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// The first one's beginning.
    pub enter: u64,
    /// The last one's end.
    pub leave: u64,
    pub exact: Sequence,
    pub collapsed: Collapsed,
    /// Executions in it.
    pub count: u64,
    /// For which pairs of siblings it counts: its block, if it is one execution.
    pub block: Option<u32>,
    pub waits: Option<Arc<WaitSum>>,
    /// It is several items: it cannot be divided any more.
    joined: bool,
    /// Something was lost in it.
    hole: bool,
}

impl Node {
    #[inline]
    pub fn execution(enter: u64, leave: u64, exact: u64, collapsed: u64, count: u64) -> Self {
        Self {
            enter,
            leave,
            exact: Sequence::one(exact),
            collapsed: Collapsed::one(collapsed),
            count,
            block: None,
            waits: None,
            joined: false,
            hole: false,
        }
    }

    /// Something that is no part of the kinds of what contains it.
    #[inline]
    pub fn transparent(enter: u64, leave: u64, count: u64) -> Self {
        Self {
            exact: Sequence::EMPTY,
            collapsed: Collapsed::EMPTY,
            ..Self::execution(enter, leave, 0, 0, count)
        }
    }

    pub fn hole(at: u64) -> Self {
        Self {
            hole: true,
            ..Self::transparent(at, at, 0)
        }
    }

    fn join(self, next: Self) -> Self {
        Self {
            enter: self.enter,
            leave: next.leave,
            exact: self.exact.then(next.exact),
            collapsed: self.collapsed.then(next.collapsed),
            count: self.count + next.count,
            block: None,
            waits: WaitSum::join(self.waits, next.waits),
            joined: true,
            hole: self.hole || next.hole,
        }
    }
}

/// What an execution contains.
#[derive(Clone, Debug)]
pub(super) struct Inside {
    pub exact: Sequence,
    pub collapsed: Collapsed,
    /// Executions.
    pub count: u64,
    pub waits: Option<Arc<WaitSum>>,
    /// Not all of it is known.
    pub ragged: bool,
}

/// The items of a thread that nothing has contained yet, in order.
#[derive(Debug, Default)]
pub(super) struct Pending {
    nodes: Vec<Node>,
}

impl Pending {
    /// Takes what an execution that began at `enter` contains. `pair` is given each two neighbours in it.
    #[inline]
    pub fn take(&mut self, enter: u64, mut pair: impl FnMut(&Node, &Node)) -> Inside {
        let mut inside = Inside {
            exact: Sequence::EMPTY,
            collapsed: Collapsed::EMPTY,
            count: 0,
            waits: None,
            ragged: false,
        };
        let contained = |node: &&Node| node.enter >= enter;
        let children = self.nodes.iter().rev().take_while(contained).count();
        let first = self.nodes.len() - children;
        if let Some(before) = first.checked_sub(1).and_then(|at| self.nodes.get(at)) {
            // It began in the middle of what was joined.
            inside.ragged = before.joined && before.leave > enter;
        }
        if children == 0 {
            return inside;
        }
        let nodes = self.nodes.get(first..).unwrap_or_default();
        each_pair(nodes, &mut pair);
        for node in self.nodes.drain(first..) {
            inside.exact = inside.exact.then(node.exact);
            inside.collapsed = inside.collapsed.then(node.collapsed);
            inside.count += node.count;
            inside.ragged |= node.hole;
            if node.waits.is_some() {
                inside.waits = WaitSum::join(inside.waits.take(), node.waits);
            }
        }
        inside
    }

    #[inline]
    pub fn push(&mut self, node: Node, pair: impl FnMut(&Node, &Node)) {
        if self.nodes.len() >= CAPACITY {
            self.join_older(pair);
        }
        self.nodes.push(node);
    }

    #[cold]
    fn join_older(&mut self, mut pair: impl FnMut(&Node, &Node)) {
        let older = self.nodes.len() / 2;
        let nodes = self.nodes.get(..older + 1).unwrap_or_default();
        each_pair(nodes, &mut pair);
        let mut older = self.nodes.drain(..older);
        let mut joined = Vec::with_capacity(CAPACITY);
        while let Some(node) = older.next() {
            joined.push(match older.next() {
                Some(next) => node.join(next),
                None => node,
            });
        }
        drop(older);
        joined.append(&mut self.nodes);
        self.nodes = joined;
    }
}

/// Neighbours, whatever was waited for between them.
#[inline]
fn each_pair(nodes: &[Node], pair: &mut impl FnMut(&Node, &Node)) {
    let mut before: Option<&Node> = None;
    for node in nodes.iter().filter(|node| node.count > 0 || node.hole) {
        if let Some(before) = before {
            pair(before, node);
        }
        before = Some(node);
    }
}

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
                    c = c.then(Collapsed::one(*kind));
                }
                exact = exact.then(e);
                collapsed = collapsed.then(c);
                from = cut;
            }
            let whole = kinds.iter().fold(Sequence::EMPTY, |s, k| s.then(Sequence::one(*k)));
            prop_assert_eq!(exact, whole);
            let mut distinct = kinds.clone();
            distinct.dedup();
            let short = distinct.iter().fold(Sequence::EMPTY, |s, k| s.then(Sequence::one(*k)));
            prop_assert_eq!(collapsed.word(), short.word());
        }
    }
}
