//! Causes of instruction stalls (section 6.3): "guilty until proven innocent". Each cause of
//! dynamic stalls is a culprit of a stall unless it is ruled out. The remaining ones have a bound
//! on their share, if one is known.
//!
//! The instruction examined depends on how the processor issues. In order, a stall shows at the
//! instruction that waits: an operand comes from a load that missed. Out of order, the clock
//! interrupts when something retires. The stall then shows at the instruction *after* the one that
//! held up retirement. It shows at the instruction itself if there was nothing to retire, because
//! nothing had been fetched. So data misses and long operations are sought at the instructions that
//! may have executed right before. Causes that stop the front end are sought at the instruction
//! itself.
//!
//! The functions of the `rules` module document how each cause is ruled out. They assume that the
//! frequencies are right: with a wrong one the stall is wrong, and so are its possible
//! explanations.

mod cause;
mod context;
mod evidence;
mod expected;
mod exposure;
mod front_end;
mod movement;
mod places;
mod residence;
mod reuse;
mod rounds;
mod rules;
mod summary;

pub use cause::{Cause, Culprit, Static};
pub use evidence::{Account, EventCounts, Evidence};
pub use expected::{Expected, expectations};
pub use summary::{Line, Summary};

use super::CycleTrust;
use context::Context;

/// Returns the largest share of a branch's passages that can be mispredicted, by the mispredictions
/// among some records of it: two standard deviations more, and three if there was none. `None`
/// without records.
pub fn mispredicted_at_most(mispredicted: u64, judged: u64) -> Option<f64> {
    (judged > 0).then(|| places::at_most(mispredicted as f64, judged as f64))
}

/// A culprit that cannot have more than this share of a stall is left out.
const LEAST_SHARE: f64 = 0.1;

/// Fewest cycles of a stall that is examined.
const LEAST_STALL: f64 = 0.1;

/// Findings about each instruction of a graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Account of each instruction's cycles; `None` if they are not known, or if the instruction
    /// did not run.
    pub accounts: Vec<Option<Account>>,
    /// Possible causes of instructions without an account. Only the code rules them out, and their
    /// largest cost relative to the best case of the block. Their amounts have no meaning.
    pub suspects: Vec<Vec<Culprit>>,
}

/// Returns the findings about the graph's instructions.
///
/// # Panics
/// If the evidence is not of this graph.
pub fn find_culprits(evidence: &Evidence<'_>) -> Findings {
    let graph = evidence.graph;
    assert_eq!(evidence.expected.len(), graph.instructions.len());
    assert_eq!(evidence.samples.len(), graph.instructions.len());
    let context = Context::new(evidence);
    let mut found = Findings {
        accounts: vec![None; graph.instructions.len()],
        suspects: vec![Vec::new(); graph.instructions.len()],
    };
    for (block, frequency) in evidence.frequencies.blocks.iter().enumerate() {
        let frequency = frequency.map_or(0.0, |estimate| estimate.frequency);
        let instructions = graph.blocks[block].instructions.clone();
        if !evidence.cycle_trust(block).is_known() {
            let highest = highest_frequency(evidence, block);
            for index in instructions.filter(|index| evidence.samples[*index] > 0.0) {
                found.suspects[index] = possible_waits(&context, block, index, highest);
            }
            continue;
        }
        if frequency <= 0.0 {
            continue;
        }
        for index in instructions {
            found.accounts[index] = Some(account_for_stall(&context, block, index, frequency));
        }
    }
    found
}

/// Returns the highest possible frequency of a block, as if it had always taken its best case.
fn highest_frequency(evidence: &Evidence<'_>, block: usize) -> f64 {
    let range = evidence.graph.blocks[block].instructions.clone();
    let samples: f64 = evidence.samples[range.clone()].iter().sum();
    let expected = evidence.expected[range].iter();
    let best: f64 = expected.map(|one| one.minimum).sum();
    samples / best.max(f64::MIN_POSITIVE)
}

/// Returns the possible causes for an instruction whose cycles are unknown. At the frequency
/// `highest`, its block always took its best case, and the instruction took the fewest cycles. It
/// may have taken any number more. A cause that cannot be a tenth of the fewest cycles cannot be a
/// tenth of the true number either.
fn possible_waits(context: &Context<'_>, block: usize, index: usize, highest: f64) -> Vec<Culprit> {
    let least = context.evidence.samples[index] / highest;
    let mut all = rules::candidates(context, block, index, least);
    context.tighten_bounds(index, highest, &mut all);
    all.retain(|culprit| culprit.most >= LEAST_SHARE * least);
    all
}

fn account_for_stall(context: &Context<'_>, block: usize, index: usize, frequency: f64) -> Account {
    let samples = context.evidence.samples[index];
    let expected = &context.evidence.expected[index];
    let cycles = samples / frequency;
    let (beyond, error) = context.evidence.cycles_beyond_best(index, frequency);
    let mut account = Account {
        frequency,
        sure: context.evidence.cycle_trust(block) == CycleTrust::Sure,
        cycles,
        minimum: expected.minimum,
        static_stall: expected.stall,
        stall: if beyond > error { beyond } else { 0.0 },
        culprits: Vec::new(),
        minor: 0.0,
        unexplained: 0.0,
        gain: if -beyond > error { -beyond } else { 0.0 },
        error,
    };
    if account.stall < LEAST_STALL {
        account.unexplained = account.stall;
        return account;
    }
    let mut all = rules::candidates(context, block, index, cycles);
    context.tighten_bounds(index, frequency, &mut all);
    account.charge_culprits(all);
    account
}

impl Account {
    /// Lists the culprits that can have had a tenth of the stall, and the part that none can
    /// explain.
    fn charge_culprits(&mut self, mut all: Vec<Culprit>) {
        let bounds: f64 = all.iter().map(|culprit| culprit.most).sum();
        self.unexplained = (self.stall - bounds).max(0.0);
        let least = LEAST_SHARE * self.stall;
        let minor = all.iter().filter(|culprit| culprit.most < least);
        self.minor = minor.map(|culprit| culprit.most).sum();
        all.retain(|culprit| culprit.most >= least);
        for culprit in &mut all {
            culprit.most = culprit.most.min(self.stall);
        }
        self.culprits = all;
    }
}
