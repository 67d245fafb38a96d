//! Movement of addresses from one round of a loop to the next, derived from the code alone.

use machine::{Instruction, MemoryOperand, Register, RegisterSet};
use rustc_hash::FxHashMap;

/// Effects of a loop's code on registers.
#[derive(Default)]
struct Written {
    /// Registers written in other ways, or more than once in a round.
    otherwise: RegisterSet,
    /// Constants added to each register, and subtracted, by instructions that execute at most once
    /// in a round.
    advances: FxHashMap<Register, [u64; 2]>,
    /// True if nothing is known: the loop calls something, or is entered elsewhere than at its
    /// head.
    unknown: bool,
}

/// The registers that the loops of a procedure write.
pub(super) struct Movement(Vec<Written>);

impl Movement {
    /// Derives the writes of `count` loops, ordered after the loops around them. For each loop,
    /// takes the instructions of blocks that are in no deeper loop, the loops directly in it, and
    /// whether nothing can be known of it.
    pub fn new<'a>(
        count: usize,
        own: impl Fn(usize) -> Vec<&'a Instruction>,
        inner: &[Vec<usize>],
        unknown: impl Fn(usize) -> bool,
    ) -> Self {
        let mut loops: Vec<Written> = Vec::new();
        loops.resize_with(count, Written::default);
        for index in (0..count).rev() {
            let mut written = Written {
                unknown: unknown(index),
                ..Written::default()
            };
            for one in own(index) {
                match one.advances {
                    Some((register, by)) => {
                        let sums = written.advances.entry(register).or_default();
                        let sum = &mut sums[usize::from(by < 0)];
                        *sum = sum.saturating_add(by.unsigned_abs());
                    }
                    None => written.otherwise = written.otherwise.union(one.writes),
                }
            }
            for one in inner[index].iter().map(|one| &loops[*one]) {
                written.unknown |= one.unknown;
                written.otherwise = written.otherwise.union(one.otherwise);
                let advanced = one.advances.keys().copied();
                written.otherwise = written.otherwise.union(advanced.collect());
            }
            loops[index] = written;
        }
        Self(loops)
    }

    /// Returns the most bytes that a place moves on in a round of a loop, always in the same
    /// direction; `None` if the code does not say it.
    pub fn round_step(&self, index: usize, place: &MemoryOperand) -> Option<u64> {
        let written = &self.0[index];
        let base = place.base.map(|base| (base, 1));
        let (mut forward, mut back) = (0_u64, 0_u64);
        for (register, scale) in base.into_iter().chain(place.index) {
            if written.unknown || written.otherwise.contains(register) {
                return None;
            }
            let sums = written.advances.get(&register).copied();
            let [more, less] = sums.unwrap_or_default();
            forward = forward.saturating_add(more.saturating_mul(scale.into()));
            back = back.saturating_add(less.saturating_mul(scale.into()));
        }
        (forward == 0 || back == 0).then_some(forward.max(back))
    }
}
