//! Why instructions stall (section 6.3): "guilty until proven innocent". Each cause of dynamic
//! stalls is a culprit of a stall unless it is ruled out, and of those that are left each has a
//! bound on its share where there is one.
//!
//! Which instruction is looked at depends on how the processor issues. In order, a stall shows at
//! the instruction that waits: an operand comes from a load that missed. Out of order, the clock
//! interrupts when something retires, and the stall shows at the instruction *after* the one that
//! held up retirement; at the instruction itself if there was nothing to retire, because nothing
//! had been fetched. So the instructions that can have been executed right before are asked for
//! data misses and long operations, and the instruction itself for what stops the front end.
//!
//! How each cause is ruled out stands at the functions of the `causes` module. It assumes the
//! frequencies to be right: with a wrong one the stall is wrong, and so is what can explain it.

mod causes;
mod context;
mod expected;
mod exposure;
mod movement;
mod places;
mod residence;
mod reuse;
mod rounds;
mod summary;

pub use expected::{Expected, expectations};
pub use summary::{Line, Summary};

use super::{CycleTrust, Frequencies};
use context::Context;
use machine::{Graph, Loops, Processor};
use profile::Accesses;

/// A reason of a dynamic stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The instruction was not in the first-level instruction cache.
    InstructionCache,
    /// The translation of its address was not in the first-level table.
    InstructionTlb,
    /// Data were not in the first-level data cache.
    DataCache,
    /// The translation of a data address was not in the first-level table.
    DataTlb,
    /// Stores wait for room in the store buffer.
    StoreBuffer,
    /// A branch, call or return was not predicted.
    Mispredict,
    /// Results of other instructions are waited for.
    Dependency,
    /// A division or another operation that takes its unit for long.
    Unit,
    /// Other instructions have the ports that are needed.
    Ports,
    /// A locked or serialising instruction waits for all before it.
    Synchronisation,
    /// A page was not mapped.
    PageFault,
    /// The instruction is carried out by microcode.
    Microcode,
}

impl Cause {
    /// All, in the order of the summary.
    pub const ALL: [Self; 12] = [
        Self::InstructionCache,
        Self::InstructionTlb,
        Self::DataCache,
        Self::DataTlb,
        Self::StoreBuffer,
        Self::Synchronisation,
        Self::Mispredict,
        Self::Dependency,
        Self::Unit,
        Self::Ports,
        Self::PageFault,
        Self::Microcode,
    ];

    /// The letter in a bubble; the paper's where it has one.
    pub fn letter(self) -> char {
        match self {
            Self::InstructionCache => 'i',
            Self::InstructionTlb => 'I',
            Self::DataCache => 'd',
            Self::DataTlb => 'D',
            Self::StoreBuffer => 'w',
            Self::Mispredict => 'p',
            Self::Dependency => 'c',
            Self::Unit => 'u',
            Self::Ports => 'o',
            Self::Synchronisation => 'l',
            Self::PageFault => 'f',
            Self::Microcode => 'm',
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::InstructionCache => "I-cache miss",
            Self::InstructionTlb => "ITLB miss",
            Self::DataCache => "D-cache miss",
            Self::DataTlb => "DTLB miss",
            Self::StoreBuffer => "Store buffer",
            Self::Mispredict => "Branch mispredict",
            Self::Dependency => "Dependency chain",
            Self::Unit => "Divider, long units",
            Self::Ports => "Port contention",
            Self::Synchronisation => "Synchronization",
            Self::PageFault => "Page fault",
            Self::Microcode => "Microcode",
        }
    }
}

/// A reason of a static stall: one that no luck avoids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Static {
    /// In order: units were taken by an instruction of the same cycle.
    Slotting,
    /// In order: the result of an instruction of the block comes so late.
    Operand,
    /// In order: a unit is busy with an instruction of the block.
    Unit,
    /// Out of order: fetching takes longer than issuing.
    FrontEnd,
    /// Out of order: units take longer than issuing.
    Ports,
}

impl Static {
    /// All, in the order of the summary.
    pub const ALL: [Self; 5] = [
        Self::Slotting,
        Self::Operand,
        Self::Unit,
        Self::FrontEnd,
        Self::Ports,
    ];

    /// The letter in a bubble.
    pub fn letter(self) -> char {
        match self {
            Self::Slotting => 's',
            Self::Operand => 'a',
            Self::Unit => 'n',
            Self::FrontEnd => 'e',
            Self::Ports => 'P',
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Slotting => "Slotting",
            Self::Operand => "Operand dependency",
            Self::Unit => "Unit dependency",
            Self::FrontEnd => "Front end",
            Self::Ports => "Ports",
        }
    }
}

/// A cause that was not ruled out.
#[derive(Clone, Debug, PartialEq)]
pub struct Culprit {
    /// The cause.
    pub cause: Cause,
    /// The instructions, by index in the graph, that it may be due to: loads that feed the stalled
    /// one, branches that lead to it.
    pub at: Vec<usize>,
    /// The most cycles that it can have cost each time, and not more than the stall.
    pub most: f64,
}

/// Where the cycles of an instruction went, each in cycles per execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// How often it ran: executions by the cycles between samples.
    pub frequency: f64,
    /// True if that is sure enough to say how much a cause has at least.
    pub sure: bool,
    /// All: samples by frequency.
    pub cycles: f64,
    /// At best.
    pub minimum: f64,
    /// What of the minimum is a static stall, and why.
    pub static_stall: Option<(Static, f64)>,
    /// What is beyond the minimum and beyond sampling error.
    pub stall: f64,
    /// Who can be the reason, the likeliest first.
    pub culprits: Vec<Culprit>,
    /// What those can have cost together that are left out because each can have little.
    pub minor: f64,
    /// What of the stall is beyond all their bounds.
    pub unexplained: f64,
    /// What is missing to the minimum, beyond sampling error.
    pub gain: f64,
    /// Twice the standard deviation of the samples, by frequency: smaller differences from the
    /// minimum are taken for sampling error.
    pub error: f64,
}

/// Samples of an event that has one of the causes.
#[derive(Clone, Debug, PartialEq)]
pub struct EventCounts {
    /// What happened.
    pub cause: Cause,
    /// How often, at each instruction of the graph: samples times their period.
    pub counts: Vec<f64>,
}

/// What is known of a procedure.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// Its graph.
    pub graph: &'a Graph,
    /// The loops of the graph.
    pub loops: &'a Loops,
    /// The processor.
    pub processor: &'a Processor,
    /// What each instruction of the graph takes at best.
    pub expected: &'a [Expected],
    /// Time samples of each instruction, at the program counter where they were taken.
    pub samples: &'a [f64],
    /// How often blocks and edges ran.
    pub frequencies: &'a Frequencies,
    /// Cycles between samples, where the clock is known: events are compared by it.
    pub period: Option<f64>,
    /// Other events that were sampled.
    pub events: &'a [EventCounts],
    /// For each edge the largest share of the times when it was taken in which it can have been
    /// mispredicted, where branch records say it ([`mispredicted_at_most`]); empty without them.
    pub mispredicted: &'a [Option<f64>],
    /// Samples in the kernel beside these, where it was recorded: page faults cannot have cost
    /// the program more than they cost the kernel.
    pub kernel: Option<f64>,
    /// What was seen of the memory that each instruction of the graph accesses; empty without registers.
    pub accesses: &'a [Option<&'a Accesses>],
    /// Samples of the same processes elsewhere than in this procedure, if that is known. It compares with frequencies only
    /// if these have a scale.
    pub elsewhere: Option<f64>,
    /// For each block how far its cycles are known; empty if all are sure.
    pub trust: &'a [CycleTrust],
    /// True if other threads may write what the procedure accesses.
    pub shared: bool,
    /// Instructions by which a sample may come later than right after the slow one (its skid): each of so many before
    /// is suspected too.
    pub late: usize,
}

impl Evidence<'_> {
    fn trust(&self, block: usize) -> CycleTrust {
        let trust = self.trust.get(block).copied();
        trust.unwrap_or(CycleTrust::Sure)
    }

    /// Returns how often a block runs: what is not known to run seldom may run all the time.
    fn often(&self, block: usize) -> f64 {
        self.frequencies.blocks[block].map_or(f64::INFINITY, |one| one.frequency)
    }

    /// The same of an edge.
    fn often_taken(&self, edge: usize) -> f64 {
        self.frequencies.edges[edge].map_or(f64::INFINITY, |one| one.frequency)
    }

    /// Returns how much more than at best an instruction took that ran so often, in cycles each time, and
    /// the sampling error.
    fn beyond(&self, index: usize, frequency: f64) -> (f64, f64) {
        let (samples, minimum) = (self.samples[index], self.expected[index].minimum);
        let error = 2.0 * samples.max(minimum * frequency).sqrt() / frequency;
        (samples / frequency - minimum, error)
    }
}

/// The largest share of mispredictions, of a branch that goes one way, that those among some records of
/// it allow for: by two standard deviations, and three even where none was. `None` without records.
pub fn mispredicted_at_most(mispredicted: u64, judged: u64) -> Option<f64> {
    (judged > 0).then(|| places::at_most(mispredicted as f64, judged as f64))
}

/// A culprit that cannot have more than this share of a stall is left out.
const LEAST_SHARE: f64 = 0.1;

/// No stall of fewer cycles is looked into.
const LEAST_STALL: f64 = 0.1;

/// What is said of each instruction of a graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Where the cycles went; `None` where they are not known, or the instruction did not run.
    pub accounts: Vec<Option<Account>>,
    /// Where there is no account: what may have been waited for. Causes are ruled out by the code only, and by what they
    /// can cost at most beside the best case of the block. The amounts say nothing.
    pub suspects: Vec<Vec<Culprit>>,
}

/// Returns what is said of the graph's instructions.
///
/// # Panics
/// If what is known is not of this graph.
pub fn culprits(evidence: &Evidence<'_>) -> Findings {
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
        if !evidence.trust(block).is_known() {
            let highest = highest_frequency(evidence, block);
            for index in instructions.filter(|index| evidence.samples[*index] > 0.0) {
                found.suspects[index] = suspects(&context, block, index, highest);
            }
            continue;
        }
        if frequency <= 0.0 {
            continue;
        }
        for index in instructions {
            found.accounts[index] = Some(account(&context, block, index, frequency));
        }
    }
    found
}

/// Returns how often a block can have run at most: as if it had always been at its best.
fn highest_frequency(evidence: &Evidence<'_>, block: usize) -> f64 {
    let range = evidence.graph.blocks[block].instructions.clone();
    let samples: f64 = evidence.samples[range.clone()].iter().sum();
    let expected = evidence.expected[range].iter();
    let best: f64 = expected.map(|one| one.minimum).sum();
    samples / best.max(f64::MIN_POSITIVE)
}

/// Returns what an instruction may have waited for whose cycles are not known. If its block never took longer than at best, it
/// took so many cycles at `highest` frequency; it may have taken any number more. So what cannot be a
/// tenth of these cannot be a tenth of what it took.
fn suspects(context: &Context<'_>, block: usize, index: usize, highest: f64) -> Vec<Culprit> {
    let least = context.evidence.samples[index] / highest;
    let mut all = causes::candidates(context, block, index, least);
    context.tighten(index, highest, &mut all);
    all.retain(|culprit| culprit.most >= LEAST_SHARE * least);
    all
}

fn account(context: &Context<'_>, block: usize, index: usize, frequency: f64) -> Account {
    let samples = context.evidence.samples[index];
    let expected = &context.evidence.expected[index];
    let cycles = samples / frequency;
    let (beyond, error) = context.evidence.beyond(index, frequency);
    let mut account = Account {
        frequency,
        sure: context.evidence.trust(block) == CycleTrust::Sure,
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
    let mut all = causes::candidates(context, block, index, cycles);
    context.tighten(index, frequency, &mut all);
    account.charge(all);
    account
}

impl Account {
    /// Lists who can have had a tenth of the stall, and how much of it nobody can explain.
    fn charge(&mut self, mut all: Vec<Culprit>) {
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
