//! Executions of single places, counted in bursts, with the registers at samples between.

/// What a count of a procedure's executions saw.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecutionCounts {
    /// The threads, each with its windows in order.
    pub threads: Vec<Vec<CountWindow>>,
    /// Nanoseconds that an execution of a counted place takes longer.
    pub hit_ns: f64,
    /// Nanoseconds that a sample takes.
    pub sample_ns: f64,
}

/// A stretch of a thread's CPU time, during which the same places were counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CountWindow {
    /// Its CPU time, in nanoseconds.
    pub cpu_ns: u64,
    /// Nanoseconds of CPU time between its samples.
    pub period_ns: f64,
    /// The executions of each place; `None` where it was not counted.
    pub hits: Vec<Option<u64>>,
    /// The samples in user mode, in order.
    pub samples: Vec<CountSample>,
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
    /// Executions of each place so far.
    pub passed: Vec<u64>,
}
