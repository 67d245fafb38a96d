//! Estimates of how often each instruction runs and how long it takes, from time samples alone:
//! "Continuous Profiling: Where Have All the Cycles Gone?" (SOSP '97), section 6.
//!
//! [`in_order`] is the paper's own estimator, for processors that issue in order. It needs some
//! instructions that do not stall, and the least time of each. On out-of-order processors neither
//! is available, and most of its answers are wrong by more than half. [`out_of_order`] is for
//! these: it combines samples with observed branches.

mod attribution;
mod block_evidence;
mod cluster;
mod count_plan;
mod count_rates;
pub mod culprits;
pub mod in_order;
mod model;
mod network;
pub mod out_of_order;
mod propagate;
mod sparse;
mod trust;

pub use attribution::attribute_samples;
pub use count_plan::{CountPlace, CountPlan};
pub use count_rates::{BlockRate, LoopRounds, block_rates, loop_rounds, own_seconds};
pub use trust::{CycleDoubt, CycleTrust, FrequencyScale, cycle_trust};

/// Confidence in an estimate (section 6.1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confidence {
    /// The estimate may be off by any factor.
    Low,
    /// In order only: samples of several instructions agree. The estimator prefers it, but on real
    /// programs it was no better than [`Low`](Self::Low), so that it is shown as low.
    Medium,
    /// At least four of five are within 10 %.
    High,
}

/// An estimated execution frequency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Executions, divided by the cycles between samples: `F` in the paper.
    pub frequency: f64,
    /// The confidence in it.
    pub confidence: Confidence,
    /// Standard deviation of the logarithm of the frequency, if something sets its scale.
    pub deviation: Option<f64>,
}

/// Execution frequencies of the blocks and edges of a procedure; `None` where unknown.
#[derive(Clone, Debug, PartialEq)]
pub struct Frequencies {
    /// For each block.
    pub blocks: Vec<Option<Estimate>>,
    /// For each edge.
    pub edges: Vec<Option<Estimate>>,
}

/// Blocks at the two ends of an edge, from and to; `None` outside of the procedure.
pub type Ends = (Option<usize>, Option<usize>);
