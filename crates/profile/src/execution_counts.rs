//! Executions of single places, counted in bursts, with the registers at samples between.

/// What a count of a procedure's executions saw.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecutionCounts {
    /// The threads, each with its windows in order.
    pub threads: Vec<Vec<CountWindow>>,
    /// For each place, the nanoseconds that an execution takes longer while it is counted.
    pub hit_ns: Vec<f64>,
    /// Nanoseconds that a sample takes.
    pub sample_ns: f64,
}

/// Instructions that cost about the same under a uprobe. The kernel emulates some, and executes
/// others elsewhere, step by step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbedKind {
    /// A jump or a call to an address in the instruction, which kernels emulate.
    Jump,
    /// An instruction that does nothing, which newer kernels emulate.
    Nop,
    /// Any other.
    Other,
}

/// A stretch of a thread's CPU time, during which the same places were counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CountWindow {
    /// CPU time of the thread at its beginning, in nanoseconds. It may be later than the end of the
    /// window before.
    pub begin_ns: u64,
    /// Its CPU time, in nanoseconds.
    pub cpu_ns: u64,
    /// Nanoseconds of CPU time between its samples.
    pub period_ns: f64,
    /// The CPU time that its samples stand for, in nanoseconds.
    pub sampled_ns: f64,
    /// The executions of each place; `None` where it was not counted.
    pub hits: Vec<Option<PlaceHits>>,
    /// The samples in user mode, in order.
    pub samples: Vec<CountSample>,
}

/// Executions of a place in a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlaceHits {
    /// Their number.
    pub count: u64,
    /// The integer registers at those that were not lost, in the order of their encoding.
    pub registers: Vec<[u64; 16]>,
}

/// A sample of a thread.
#[derive(Clone, Debug, PartialEq)]
pub struct CountSample {
    /// CPU time of the thread, in nanoseconds.
    pub cpu_ns: u64,
    /// Bytes from the procedure's start; `None` outside of it.
    pub into: Option<u64>,
    /// The integer registers, in the order of their encoding.
    pub registers: [u64; 16],
}
