//! Recorder of data addresses: interprets the code after each sample, from its registers.

use machine::{Flow, Instruction, RegisterSet};
use profile::{Accesses, OnWay, add_way};
use rustc_hash::FxHashMap;

/// Maximum number of instructions and branches that are followed, as in the recorder.
const STEPS: usize = 96;
const BRANCHES: usize = 8;

/// The path after a sample.
struct Way {
    unknown: RegisterSet,
    steps: usize,
    branches: usize,
    accesses: Vec<OnWay<usize>>,
}

impl Way {
    /// Advances by an instruction; returns whether it can.
    fn step(&mut self, index: usize, one: &Instruction, address: Option<u64>) -> bool {
        let known = !one.reads.intersects(self.unknown);
        if let Some(address) = address {
            self.accesses.push(OnWay {
                instruction: index,
                address: known.then_some(address),
                has_room: self.steps < STEPS / 2 && self.branches < BRANCHES / 2,
            });
        }
        self.steps += 1;
        let clear = known && !one.kind.load;
        if !clear {
            self.unknown = self.unknown.union(one.writes);
        } else if self.unknown.intersects(one.writes) {
            let others = self.unknown.iter();
            self.unknown = others
                .filter(|other| !one.writes.contains(*other))
                .collect();
        }
        if let Flow::Branch(_) = one.flow {
            self.branches += 1;
            if !clear || self.branches == BRANCHES {
                return false;
            }
        }
        one.flow != Flow::Return && self.steps < STEPS
    }
}

/// All paths being followed, and the observations.
#[derive(Default)]
pub struct Ways {
    open: Vec<Way>,
    pub seen: FxHashMap<usize, Accesses>,
    /// The instruction executed last, whose address follows from the registers after it: index,
    /// end, address.
    before: Option<(usize, u64, Option<u64>)>,
}

impl Ways {
    /// Samples at the instruction that is executed next.
    pub fn sample(&mut self, one: &Instruction, count: f64) {
        let before = self.before.filter(|(_, end, _)| *end == one.address.0);
        for _ in 0..count as usize {
            self.open.push(Way {
                unknown: RegisterSet::default(),
                steps: 0,
                branches: 0,
                accesses: Vec::new(),
            });
            // The recorder knows the instruction from earlier paths.
            if let Some((index, _, Some(address))) = before
                && let Some(seen) = self.seen.get_mut(&index)
            {
                seen.wait(0, address);
            }
        }
    }

    /// Executes an instruction.
    pub fn step(&mut self, index: usize, one: &Instruction, address: Option<u64>) {
        for mut way in std::mem::take(&mut self.open) {
            if way.step(index, one, address) {
                self.open.push(way);
            } else {
                add_way(0, &way.accesses, usize::MAX, &mut self.seen);
            }
        }
        let kept = address.filter(|_| !one.writes.intersects(one.reads));
        self.before = Some((index, one.end().0, kept));
    }
}
