//! Evidence about a procedure's blocks and edges, for processors that execute out of order.

/// Evidence about a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockEvidence {
    /// Its samples.
    pub samples: f64,
    /// The number of its instructions.
    pub instructions: f64,
    /// Expected cycles, up to a factor that all blocks of the procedure share; the number of
    /// instructions if nothing better is known.
    pub cost: f64,
    /// The highest possible frequency, in executions divided by the cycles between samples: samples
    /// divided by the least cycles of the block. Infinite if unknown.
    pub at_most: f64,
}

/// Observed transfers of control along an edge.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EdgeEvidence {
    /// Passages seen at samples, by the registers or by branch records.
    pub observed: f64,
    /// Passages along stretches of execution that were followed from some time after a sample, so
    /// that visits of different blocks are comparable.
    pub walked: f64,
    /// Passages that were counted, in a number that tells how well their ratio is known.
    pub counted: f64,
}

/// Execution count of a block: of one of its source lines by another tool, or measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// The block.
    pub block: usize,
    /// The execution count.
    pub executions: f64,
    /// Cycles between samples: executions divided by these are a frequency.
    pub period: f64,
    /// Standard deviation of the logarithm of a measured count. `None` for a count of a line, which
    /// may be wrong by any factor, because compilers move code.
    pub deviation: Option<f64>,
}

impl Counted {
    /// Returns whether it is a count of a source line.
    pub(super) fn is_of_line(&self) -> bool {
        self.deviation.is_none()
    }
}

/// Evidence about a procedure.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// For each block.
    pub blocks: Vec<BlockEvidence>,
    /// For each edge.
    pub edges: Vec<EdgeEvidence>,
    /// Counts of blocks; a block may have several.
    pub counted: Vec<Counted>,
    /// The instructions that the procedure executed, divided by the cycles between samples.
    pub instructions: Option<f64>,
    /// True if the graph has all edges. If not, no confidence is more than low.
    pub complete: bool,
}

impl Evidence {
    /// Returns whether source lines were counted.
    pub(super) fn has_counted_lines(&self) -> bool {
        self.counted.iter().any(Counted::is_of_line)
    }
}

/// Assumptions of the estimator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Cycles for each instruction, where the number of instructions is not given; in the unit
    /// of the sampling period.
    pub cycles_per_instruction: f64,
    /// The numbers of observations at samples (if there is one for each), and along stretches,
    /// beyond which a branch gets no surer.
    pub most_observations: (f64, f64),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cycles_per_instruction: 1.0,
            most_observations: (30.0, 4000.0),
        }
    }
}
