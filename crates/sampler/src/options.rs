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
    /// A running process with all its threads, and its later children.
    Process(u32),
    /// The whole machine.
    Machine,
}

/// Sampling rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Samples a second on each CPU.
    Frequency(u64),
    /// The highest rate that costs at most this many percent of a CPU, by a measurement before the
    /// start; at least [`Rate::LEAST`], at most [`Rate::MOST`].
    Overhead(f64),
}

impl Rate {
    /// The lowest rate that an overhead budget chooses, in samples a second.
    pub const LEAST: u64 = 1000;
    /// The highest rate that an overhead budget chooses, in samples a second.
    pub const MOST: u64 = 5000;
}

/// Way in which samples are collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Counted in the kernel if possible, otherwise through ring buffers.
    Best,
    /// Counted in the kernel, or not at all.
    Kernel,
    /// Through ring buffers.
    Rings,
}

/// Property that separates samples at the same place.
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
    /// The events; none means cycles, or `cpu-clock` where there are no cycles.
    pub events: Vec<EventSpec>,
    /// Rate of the events that are sampled at one.
    pub rate: Rate,
    /// Kind of call stacks to record.
    pub call_graph: CallGraph,
    /// Bytes of unwind tables that [`CallGraph::Tables`] may hold in the kernel.
    pub table_memory: usize,
    /// Directory on disk for these tables and the kernel's procedures.
    pub table_directory: Option<PathBuf>,
    /// Asks JVMs to write the names of their functions, and starts commands of other runtimes with
    /// the variables that make them do so.
    pub ask_runtimes: bool,
    /// Bytes of user stack copied with each sample for [`CallGraph::Dwarf`].
    pub stack_bytes: u32,
    /// Records the time that threads spend off the CPU.
    pub off_cpu: bool,
    /// Without the rights to count in the kernel, samples what this user may instead of refusing:
    /// own processes, without waits.
    pub as_permitted: bool,
    /// Property that separates samples.
    pub separation: Separation,
    /// Keeps the times of samples, to a tenth of a second; coarser in recordings of more than a
    /// minute.
    pub timeline: bool,
    /// Stops after this time.
    pub duration: Option<Duration>,
    /// Way in which samples are collected.
    pub path: Path,
    /// Does not randomise the period (to show the effect).
    pub fixed_period: bool,
    /// Interprets the code after each sample in user mode, from the registers and the memory, to
    /// predict the next branches (x86-64, through ring buffers; memory only if BPF may be loaded).
    pub registers: bool,
    /// Takes the processor's records of the last branches: adds [`EventSpec::branch_records`],
    /// unless an event has them already (through ring buffers).
    pub branches: bool,
    /// Follows the execution of the command for stretches at random times, which may take this many
    /// percent of its time (x86-64).
    pub path_bursts: Option<f64>,
}

impl Options {
    /// The largest stack copy of a sample, in bytes: a record has less than 64 KiB.
    pub const MOST_STACK_BYTES: u32 = 63 * 1024;

    /// Returns the defaults for a target.
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
            as_permitted: false,
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
