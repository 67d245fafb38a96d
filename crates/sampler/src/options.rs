use crate::EventSpec;
use profile::CallGraph;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Target of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetSpec {
    /// A command with its arguments, its threads and its children, from its first instruction.
    Command(Vec<OsString>),
    /// A running process with all its threads, and what it starts.
    Process(u32),
    /// The whole machine.
    Machine,
}

/// Sampling rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Samples a second on each CPU.
    Frequency(u64),
    /// Highest rate that costs at most this many percent of a CPU, by a measurement before the start;
    /// at least [`Rate::LEAST`], at most [`Rate::MOST`].
    Overhead(f64),
}

impl Rate {
    /// The lowest rate that an overhead budget chooses, in samples a second.
    pub const LEAST: u64 = 1000;
    /// The highest.
    pub const MOST: u64 = 5000;
}

/// Way in which samples reach us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Counted in the kernel where that is possible, else through ring buffers.
    Best,
    /// Counted in the kernel, or not at all.
    Kernel,
    /// Through ring buffers.
    Rings,
}

/// Property by which samples at the same place are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Separation {
    /// The name of the process.
    Names,
    /// The process.
    Processes,
    /// The thread.
    Threads,
}

/// Options of a recording.
#[derive(Clone, Debug)]
pub struct Options {
    /// Target of the recording.
    pub target: TargetSpec,
    /// The events; none stands for cycles, or `cpu-clock` where there are no cycles.
    pub events: Vec<EventSpec>,
    /// Rate of the events that have one.
    pub rate: Rate,
    /// Kind of call stacks to record.
    pub call_graph: CallGraph,
    /// Bytes of unwind tables that [`CallGraph::Tables`] may hold in the kernel.
    pub table_memory: usize,
    /// Directory on disk for these tables and the kernel's procedures.
    pub table_directory: Option<PathBuf>,
    /// Ask JVMs to write the names of their functions, and start commands of other runtimes with the variables that make them do so.
    pub ask_runtimes: bool,
    /// Bytes of user stack copied with each sample for [`CallGraph::Dwarf`].
    pub stack_bytes: u32,
    /// Record the time that threads spend off the CPU.
    pub off_cpu: bool,
    /// Property by which samples are kept apart.
    pub separation: Separation,
    /// Keep the times of samples, to a tenth of a second; less exactly in recordings of more than a minute.
    pub timeline: bool,
    /// Stop after this time.
    pub duration: Option<Duration>,
    /// Way in which samples reach us.
    pub path: Path,
    /// Do not randomise the period (to show what that would do).
    pub fixed_period: bool,
    /// Interpret the code after each sample in user mode, from the registers and the memory, to see where
    /// the next branches go (x86-64, through ring buffers; memory where BPF may be loaded).
    pub registers: bool,
    /// Take the processor's records of the last branches: [`EventSpec::branch_records`], unless one of
    /// the events has them already (through ring buffers).
    pub branches: bool,
    /// Follow the execution of the command for stretches at random times, which may take this many
    /// percent of its time (x86-64).
    pub path_bursts: Option<f64>,
}

impl Options {
    /// The most of a stack that a sample can carry, in bytes: a record has less than 64 KiB.
    pub const MOST_STACK_BYTES: u32 = 63 * 1024;

    /// The defaults for a target.
    pub fn new(target: TargetSpec) -> Self {
        Self {
            target,
            events: Vec::new(),
            rate: Rate::Overhead(1.0),
            call_graph: CallGraph::None,
            table_memory: 256 << 20,
            table_directory: None,
            ask_runtimes: true,
            stack_bytes: 16 * 1024,
            off_cpu: false,
            separation: Separation::Names,
            timeline: false,
            duration: None,
            path: Path::Best,
            fixed_period: false,
            registers: false,
            branches: false,
            path_bursts: None,
        }
    }
}
