//! Evidence about a procedure, and the account of its cycles.

use super::cause::{Cause, Culprit, Static};
use super::expected::Expected;
use crate::stall::{CycleTrust, Frequencies};
use machine::{FlowGraph, Loops, Processor};
use profile::Accesses;

/// Account of an instruction's cycles, each in cycles per execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// The execution frequency: executions by the cycles between samples.
    pub frequency: f64,
    /// True if that is sure enough to say how much a cause has at least.
    pub sure: bool,
    /// All: samples by frequency.
    pub cycles: f64,
    /// At best.
    pub minimum: f64,
    /// The part of the minimum that is a static stall, and its reason.
    pub static_stall: Option<(Static, f64)>,
    /// The time beyond the minimum and beyond sampling error.
    pub stall: f64,
    /// Possible causes, the likeliest first.
    pub culprits: Vec<Culprit>,
    /// The most that the causes left out can have cost together; each can have little.
    pub minor: f64,
    /// The part of the stall that is beyond all their bounds.
    pub unexplained: f64,
    /// The time missing to the minimum, beyond sampling error.
    pub gain: f64,
    /// Twice the standard deviation of the samples, by frequency: smaller differences from the
    /// minimum are taken for sampling error.
    pub error: f64,
}

/// Samples of an event that has one of the causes.
#[derive(Clone, Debug, PartialEq)]
pub struct EventCounts {
    /// The event.
    pub cause: Cause,
    /// The number of events at each instruction of the graph: samples times their period.
    pub counts: Vec<f64>,
}

/// Evidence about a procedure.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// Its graph.
    pub graph: &'a FlowGraph,
    /// The loops of the graph.
    pub loops: &'a Loops,
    /// The processor.
    pub processor: &'a Processor,
    /// The best case of each instruction of the graph.
    pub expected: &'a [Expected],
    /// Time samples of each instruction, at the program counter where they were taken.
    pub samples: &'a [f64],
    /// Frequencies of blocks and edges.
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
    /// Observed memory accesses of each instruction of the graph; empty without registers.
    pub accesses: &'a [Option<&'a Accesses>],
    /// Samples of the same processes elsewhere than in this procedure, if that is known. It compares with frequencies only
    /// if these have a scale.
    pub elsewhere: Option<f64>,
    /// For each block how far its cycles are known; empty if all are sure.
    pub trust: &'a [CycleTrust],
    /// True if other threads may write what the procedure accesses.
    pub shared: bool,
    /// Number of instructions by which a sample may come later than right after the slow one (its
    /// skid): the same number of instructions before it is suspected too.
    pub late: usize,
}

impl Evidence<'_> {
    pub(super) fn cycle_trust(&self, block: usize) -> CycleTrust {
        let trust = self.trust.get(block).copied();
        trust.unwrap_or(CycleTrust::Sure)
    }

    /// Returns how often a block runs: what is not known to run seldom may run all the time.
    pub(super) fn block_frequency(&self, block: usize) -> f64 {
        self.frequencies.blocks[block].map_or(f64::INFINITY, |one| one.frequency)
    }

    /// The same of an edge.
    pub(super) fn often_taken(&self, edge: usize) -> f64 {
        self.frequencies.edges[edge].map_or(f64::INFINITY, |one| one.frequency)
    }

    /// Returns how much more than at best an instruction took that ran so often, in cycles each time, and
    /// the sampling error.
    pub(super) fn cycles_beyond_best(&self, index: usize, frequency: f64) -> (f64, f64) {
        let (samples, minimum) = (self.samples[index], self.expected[index].minimum);
        let error = 2.0 * samples.max(minimum * frequency).sqrt() / frequency;
        (samples / frequency - minimum, error)
    }
}
