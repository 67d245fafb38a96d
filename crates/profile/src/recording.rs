use crate::{
    AccessCount, EmbeddedSymbol, Event, EventId, FRAMES_SUMMARY, Image, ImageId, ImageOffset,
    SharingCode, SocketUse, StackId, StackTable, StackWalks, StretchCount, TaskTimes,
};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Start of the line that says what a recording lacks for want of rights, and what brings it.
pub const LIMITED_RIGHTS: &str = "limited rights: ";

/// Index of a name in [`Recording::names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(pub u32);

/// Names of processes and threads (the kernel's `comm`, at most 15 bytes), paths of control groups
/// and labels, each once.
#[derive(Clone, Debug, Default)]
pub struct NameSet {
    names: Vec<String>,
    index: FxHashMap<String, NameId>,
}

impl NameSet {
    /// Returns the id of `name`; adds it if it is new.
    ///
    /// # Panics
    /// If there are more than `u32::MAX` names.
    pub fn intern(&mut self, name: &str) -> NameId {
        if let Some(id) = self.index.get(name) {
            return *id;
        }
        let id = NameId(u32::try_from(self.names.len()).expect("fewer than 2^32 names"));
        self.names.push(name.to_owned());
        self.index.insert(name.to_owned(), id);
        id
    }

    /// Returns the name of an id.
    ///
    /// # Panics
    /// If `id` is not in this table.
    pub fn get(&self, id: NameId) -> &str {
        &self.names[id.0 as usize]
    }

    /// Returns all names; the position is the [`NameId`].
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}

/// The machine that was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Host name.
    pub name: String,
    /// Kernel release (`uname -r`).
    pub kernel: String,
    /// Machine (`uname -m`).
    pub machine: String,
    /// Model name of the processor, if the kernel reports it.
    pub cpu_model: Option<String>,
    /// The processor: `vendor-family-model` as in CPUID (`GenuineIntel-6-143`), or
    /// `implementer-part` as in Arm's MIDR (`0x41-0xd0c`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_id: Option<String>,
    /// Cycles of its processors in a second, if the system reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_hz: Option<u64>,
    /// Number of online CPUs.
    pub cpus: u32,
}

/// The target of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A command, with its threads and children.
    Command(Vec<String>),
    /// A running process.
    Process(u32),
    /// The whole machine.
    Machine,
}

/// The way in which samples were collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Collector {
    /// Counted in the kernel by a BPF program.
    Bpf,
    /// Read one by one from perf ring buffers.
    Ring,
    /// Read from another tool's file.
    Import,
}

/// The way in which call stacks were recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallGraph {
    /// No stacks.
    None,
    /// Frame pointers, in the kernel.
    FramePointer,
    /// Unwind tables, from a copy of the stack.
    Dwarf,
    /// Unwind tables, in the kernel; frame pointers in code without tables.
    Tables,
}

impl CallGraph {
    /// Returns the maximum number of user frames of a stack that are followed.
    pub const fn deepest(self) -> usize {
        match self {
            CallGraph::Tables => 508,
            CallGraph::None | CallGraph::FramePointer | CallGraph::Dwarf => 127,
        }
    }
}

/// The thread or interrupt that woke a blocked thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Waker {
    /// Name of the waking thread.
    pub process: NameId,
    /// Its thread id; 0 for an interrupt on an idle CPU.
    pub tid: u32,
    /// Its stack when it woke the other.
    pub stack: Option<StackId>,
}

/// Samples of one event at one place, counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sample {
    /// The event.
    pub event: EventId,
    /// Name of the running thread (the kernel's `comm`).
    pub process: NameId,
    /// Process id, if the recording keeps processes apart.
    pub pid: Option<u32>,
    /// Thread id, if the recording keeps threads apart.
    pub tid: Option<u32>,
    /// The path of the thread's control group; `None` if not recorded.
    pub cgroup: Option<NameId>,
    /// The labels of the running goroutine, as text; `None` if it had none.
    pub labels: Option<NameId>,
    /// The call stack; only one frame if only the place was recorded.
    pub stack: StackId,
    /// The slice of the recording in which the sample was taken, each [`Recording::slice_ns`] long,
    /// the first one 0. A wait is in the slice in which it ended. `None` if times were not kept.
    pub slice: Option<u32>,
    /// Off-CPU events: the thread that ended the wait, if there was one.
    pub waker: Option<Waker>,
    /// Number of samples (or waits, for off-CPU events).
    pub count: u64,
    /// Their weight in the unit of the event; equals `count` for [`crate::Unit::Samples`], unless
    /// periods are mixed.
    pub weight: u64,
}

impl Sample {
    /// Makes samples with only an event, a process and a stack. Set other fields beside
    /// `..Sample::new(…)`. Code that records, stores or merges samples names every field instead,
    /// so that the compiler asks for a new one.
    pub fn new(event: EventId, process: NameId, stack: StackId, count: u64) -> Self {
        Self {
            event,
            process,
            pid: None,
            tid: None,
            cgroup: None,
            labels: None,
            stack,
            slice: None,
            waker: None,
            count,
            weight: count,
        }
    }
}

/// The samples of a thread. They are counted in addition to the samples proper, so that places
/// aggregate over processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadCount {
    /// The event.
    pub event: EventId,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Name of the thread at its samples; a thread that its own language names has both names
    /// ([`name_thread`]).
    pub process: NameId,
    /// The path of its control group; `None` if not recorded.
    pub cgroup: Option<NameId>,
    /// Number of samples.
    pub count: u64,
    /// Their weight in the unit of the event.
    pub weight: u64,
}

/// Separator between the kernel's name of a thread and its own language's.
const OWN_NAME: &str = " \u{203a} ";

/// Returns the name of a thread whose own language names it differently from the kernel.
pub fn name_thread(kernel: &str, own: &str) -> String {
    format!("{kernel}{OWN_NAME}{own}")
}

/// Returns the kernel's part of a thread's name.
pub fn kernel_name(name: &str) -> &str {
    name.split_once(OWN_NAME).map_or(name, |(kernel, _)| kernel)
}

/// Transfers of control from one place of an image to another, along the edges of control-flow
/// graphs. A branch that was not taken goes to the next instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BranchCount {
    /// The image.
    pub image: ImageId,
    /// The branch.
    pub branch: ImageOffset,
    /// The instruction executed next.
    pub target: ImageOffset,
    /// Number of transfers that followed from the registers at a sample.
    pub observed: u64,
    /// Number of transfers along followed stretches of execution.
    pub walked: u64,
}

/// The result of a collection.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The machine.
    pub host: Host,
    /// The target.
    pub target: Target,
    /// Start, in nanoseconds since 1970-01-01 UTC.
    pub start_unix_ns: u64,
    /// Length, in nanoseconds.
    pub duration_ns: u64,
    /// Length of a slice of [`Sample::slice`], in nanoseconds, if times were kept.
    pub slice_ns: Option<u64>,
    /// Time of the target's threads in each state, if the kernel was asked.
    pub task_times: Option<TaskTimes>,
    /// Use of the target's sockets, if that was looked at and it has any.
    pub sockets: Option<SocketUse>,
    /// The way in which the samples were collected.
    pub collector: Collector,
    /// The way in which call stacks were recorded.
    pub call_graph: CallGraph,
    /// Counts of the walks of user stacks, if counted. Their summary is among the warnings.
    pub walks: Option<StackWalks>,
    /// True if samples in the kernel were recorded too.
    pub kernel: bool,
    /// Warnings for the reader: each a sentence.
    pub warnings: Vec<String>,
    /// The events; index is [`EventId`].
    pub events: Vec<Event>,
    /// The images; index is [`ImageId`].
    pub images: Vec<Image>,
    /// Names of processes, and paths of control groups.
    pub names: NameSet,
    /// The stacks.
    pub stacks: StackTable,
    /// The samples.
    pub samples: Vec<Sample>,
    /// The samples of each thread.
    pub threads: Vec<ThreadCount>,
    /// Symbols of images that cannot be read later, sorted by image and start.
    pub symbols: Vec<EmbeddedSymbol>,
    /// Observed branches, each once.
    pub branches: Vec<BranchCount>,
    /// Stretches executed between branches that the processor recorded, each stretch once.
    pub stretches: Vec<StretchCount>,
    /// Observed data addresses, by instruction, each once.
    pub accesses: Vec<AccessCount>,
    /// Samples that access cache lines that threads pass to and fro. They are not stored.
    pub sharing: Vec<SharingCode>,
}

impl Recording {
    /// Makes an empty recording.
    pub fn new(host: Host, target: Target, collector: Collector, call_graph: CallGraph) -> Self {
        Self {
            host,
            target,
            start_unix_ns: 0,
            duration_ns: 0,
            slice_ns: None,
            task_times: None,
            sockets: None,
            collector,
            call_graph,
            walks: None,
            kernel: true,
            warnings: Vec::new(),
            events: Vec::new(),
            images: Vec::new(),
            names: NameSet::default(),
            stacks: StackTable::new(),
            samples: Vec::new(),
            threads: Vec::new(),
            symbols: Vec::new(),
            branches: Vec::new(),
            stretches: Vec::new(),
            accesses: Vec::new(),
            sharing: Vec::new(),
        }
    }

    /// Returns the warnings, without the line about how user stacks were found, which every
    /// recording of stacks has.
    pub fn problems(&self) -> impl Iterator<Item = &String> {
        let warnings = self.warnings.iter();
        warnings.filter(|warning| !warning.starts_with(FRAMES_SUMMARY))
    }

    /// Returns what it lacks for want of rights, and what brings it.
    pub fn limited_rights(&self) -> Option<&String> {
        let mut warnings = self.warnings.iter();
        warnings.find(|warning| warning.starts_with(LIMITED_RIGHTS))
    }

    /// Sets the counts of the walks of user stacks, in place of earlier ones.
    pub fn set_walks(&mut self, walks: Option<StackWalks>) {
        let before = self.walks.map_or_else(Vec::new, StackWalks::sentences);
        self.warnings.retain(|warning| !before.contains(warning));
        self.walks = walks;
        let sentences = walks.map(StackWalks::sentences);
        self.warnings.extend(sentences.into_iter().flatten());
    }

    /// Returns the image of an id.
    ///
    /// # Panics
    /// If `id` is not in this recording.
    pub fn image(&self, id: ImageId) -> &Image {
        &self.images[id.0 as usize]
    }

    /// Returns the event of an id.
    ///
    /// # Panics
    /// If `id` is not in this recording.
    pub fn event(&self, id: EventId) -> &Event {
        &self.events[id.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_stacks_were_found_is_no_problem() {
        let (target, collector) = (Target::Machine, Collector::Bpf);
        let mut recording = Recording::new(Host::default(), target, collector, CallGraph::Tables);
        let lost = "records about processes were lost".to_owned();
        recording.warnings = vec![
            format!("{FRAMES_SUMMARY}100.0 % by unwind tables"),
            lost.clone(),
        ];
        assert_eq!(recording.problems().collect::<Vec<_>>(), [&lost]);
    }
}
