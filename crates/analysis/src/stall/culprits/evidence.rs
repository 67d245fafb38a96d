//! Evidence about a procedure, and the account of its cycles.

use super::cause::{Cause, Culprit, Static};
use super::expected::Expected;
use crate::stall::{CycleTrust, Frequencies};
use machine::{FlowGraph, Loops, Processor};
use profile::Accesses;

/// Account of an instruction's cycles, each in cycles per execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// The execution frequency: executions divided by the cycles between samples.
    pub frequency: f64,
    /// True if the frequency is sure enough for lower bounds on causes.
    pub sure: bool,
    /// All cycles: samples divided by frequency.
    pub cycles: f64,
    /// The best case.
    pub minimum: f64,
    /// The part of the minimum that is a static stall, and its reason.
    pub static_stall: Option<(Static, f64)>,
    /// The time beyond the minimum and beyond sampling error.
    pub stall: f64,
    /// Possible causes, the likeliest first.
    pub culprits: Vec<Culprit>,
    /// The most that the omitted causes can have cost together, each of which can have little.
    pub minor: f64,
    /// The part of the stall beyond all their bounds.
    pub unexplained: f64,
    /// The cycles below the minimum, beyond sampling error.
    pub gain: f64,
    /// Twice the standard deviation of the samples, divided by frequency: smaller differences from
    /// the minimum count as sampling error.
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
    /// Its loops.
    pub loops: &'a Loops,
    /// The processor.
    pub processor: &'a Processor,
    /// The best case of each instruction of the graph.
    pub expected: &'a [Expected],
    /// Time samples of each instruction, at the program counter where they were taken.
    pub samples: &'a [f64],
    /// Frequencies of blocks and edges.
    pub frequencies: &'a Frequencies,
    /// Cycles between samples, if the clock is known: event counts are compared by it.
    pub period: Option<f64>,
    /// Other events that were sampled.
    pub events: &'a [EventCounts],
    /// For each edge, the largest share of its passages that can have been mispredicted, if branch
    /// records say it ([`mispredicted_at_most`]); empty without them.
    pub mispredicted: &'a [Option<f64>],
    /// Samples in the kernel beside these, if recorded: page faults cannot have cost the program
    /// more than they cost the kernel.
    pub kernel: Option<f64>,
    /// Observed memory accesses of each instruction of the graph; empty without registers.
    pub accesses: &'a [Option<&'a Accesses>],
    /// Samples of the same processes outside of this procedure, if known. They are comparable with
    /// frequencies only if these have a scale.
    pub elsewhere: Option<f64>,
    /// For each block, how far its cycles are known; empty if all are sure.
    pub trust: &'a [CycleTrust],
    /// True if other threads may write memory that the procedure accesses.
    pub shared: bool,
    /// Number of instructions by which a sample may come later than right after the slow one (its
    /// skid): the same number of instructions before it are suspects too.
    pub late: usize,
}

impl Evidence<'_> {
    pub(super) fn cycle_trust(&self, block: usize) -> CycleTrust {
        let trust = self.trust.get(block).copied();
        trust.unwrap_or(CycleTrust::Sure)
    }

    /// Returns how often a block runs; infinite if unknown.
    pub(super) fn block_frequency(&self, block: usize) -> f64 {
        self.frequencies.blocks[block].map_or(f64::INFINITY, |one| one.frequency)
    }

    /// Returns how often an edge is taken; infinite if unknown.
    pub(super) fn often_taken(&self, edge: usize) -> f64 {
        self.frequencies.edges[edge].map_or(f64::INFINITY, |one| one.frequency)
    }

    /// Returns the cycles beyond the best case that an instruction of this frequency took each
    /// time, and the sampling error.
    pub(super) fn cycles_beyond_best(&self, index: usize, frequency: f64) -> (f64, f64) {
        let (samples, minimum) = (self.samples[index], self.expected[index].minimum);
        let error = 2.0 * samples.max(minimum * frequency).sqrt() / frequency;
        (samples / frequency - minimum, error)
    }
}
