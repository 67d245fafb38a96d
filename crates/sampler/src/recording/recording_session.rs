//! One recording, from the target's start to the recording in memory.

use crate::bpf::kernel::{LoaderMemory, Setting, can_walk_by_tables};
use crate::bpf::layout::MAX_EVENTS;
use crate::bpf::task_accounts::TaskAccounts;
use crate::capabilities::{Question, check_process_ids};
use crate::clock::{monotonic_ns, own_cpu_ns, unix_ns};
use crate::events::cost::rate_within;
use crate::events::jitter::Jitter;
use crate::events::perf::{self, Scope};
use crate::host::{online_cpus, own_pid_namespace, read_host};
use crate::options::{Options, Path, Rate, Separation, TargetSpec};
use crate::processes::command_files::command_text;
use crate::processes::launch::{Exit, Launched};
use crate::processes::runtime_environment::{remove_unasked_logs, runtime_environment};
use crate::processes::sockets::SocketWatch;
use crate::processes::startup_files::startup_files;
use crate::processes::threads::process_file;
use crate::recording::branches;
use crate::recording::collection::{Collection, Slices};
use crate::recording::finish::finish_recording;
use crate::recording::jvm_names::JvmNames;
use crate::recording::kernel_source::KernelSource;
use crate::recording::python_threads::PythonThreads;
use crate::recording::ring_source::{RingSource, Tasks};
use crate::unwinding::UnfinishedTables;
use crate::{Error, EventKind, EventSpec};
use profile::{CallGraph, Collector, Event, LIMITED_RIGHTS, MapsLine, Recording, Target, Unit};
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time between two ticks, which set new periods and check the tables.
const TICK: Duration = Duration::from_millis(100);

/// Time between two looks at records of processes: a program that deletes itself can be read only
/// while it runs.
const LOOK: Duration = Duration::from_millis(20);

/// Time between two such looks in the first second with stacks, so that the command's files get
/// unwind tables sooner.
const EARLY_LOOK: Duration = Duration::from_millis(4);

/// Time between two ticks if the command's execution is followed. Each one follows a stretch, if
/// there is time for it.
const BURST_TICK: Duration = Duration::from_millis(20);

/// Maximum number of a process's mapped files whose unwind tables are made before the first sample.
const MOST_PROCESS_FILES: usize = 512;
/// Maximum number of words of a command that are tried as programs.
const MOST_PROGRAM_WORDS: usize = 8;

/// Progress of a recording.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// The collection has started.
    Started {
        /// The events with their rates in samples a second per CPU, if they have one.
        events: Vec<(String, Option<u64>)>,
        /// The way of collecting.
        collector: Collector,
        /// Cost of one sample, in nanoseconds, if it was measured.
        sample_cost_ns: Option<u64>,
        /// Notes for the reader: one sentence each.
        notes: Vec<String>,
    },
    /// Number of samples so far; reported several times a second.
    Samples(u64),
}

/// A recording that has ended.
pub struct Outcome {
    /// The recording.
    pub recording: Recording,
    /// End of the command; `None` without a command, or if it still runs.
    pub exit: Option<Exit>,
    /// Command, if it still runs: the recording was stopped before its end.
    pub running: Option<Launched>,
    /// Processes that a command has left behind, as a daemon does. Unknown without BPF.
    pub left_running: Vec<u32>,
    /// Files with unfinished unwind tables, which the next recording would start again: see
    /// [`make_tables`](crate::make_tables).
    pub without_tables: Vec<PathBuf>,
    /// CPU time that this process used for the recording, in nanoseconds.
    pub own_cpu_ns: u64,
}

enum Source<'memory> {
    Kernel(Box<KernelSource<'memory>>),
    Rings(Box<RingSource>, Tasks),
}

/// Records until the target ends, the time is up, or `stop` becomes true.
///
/// # Errors
/// Any failure to start the recording; the target was then not started, or not touched.
pub fn record(
    options: &Options,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(Progress),
) -> Result<Outcome, Error> {
    let cpu_before = own_cpu_ns();
    let mut memory = MaybeUninit::uninit();
    let capabilities = crate::capabilities::probe_machine();
    let waits = options.off_cpu && !(options.as_permitted && capabilities.kernel_counts().is_err());
    let options = &Options {
        off_cpu: waits,
        ..options.clone()
    };
    let mut session = RecordingSession::prepare(options, &mut memory)?;
    let rates = session.events.iter().map(|(spec, period)| {
        let rate = spec.is_timed().then(|| session.frequency_of(spec, *period));
        (spec.name.clone(), rate)
    });
    observe(Progress::Started {
        events: rates.collect(),
        collector: session.collector_used(),
        sample_cost_ns: session.sample_cost_ns,
        notes: session
            .notes
            .iter()
            .chain(&session.rate_note)
            .cloned()
            .collect(),
    });
    let (start, start_unix_ns) = session.start_sampling()?;
    let result = session.run_until_end(stop, start, observe);
    // Even if reading failed, the data gathered before is kept.
    let finished = session.stop_collecting();
    if let Err(error) = result.and(finished) {
        session
            .collection
            .warnings
            .insert(format!("the recording ended early: {error}"));
    }
    let duration_ns = monotonic_ns() - start;
    session.finish_jvms();
    session.look_at_threads(true);
    let mut launched = session.launched.take();
    let exit = launched.as_mut().and_then(Launched::try_wait);
    if let Some(launched) = &launched {
        launched.stop_as_told(stop);
    }
    let left_running = exit.map_or_else(Vec::new, |_| session.remaining_processes());
    let reaped = launched.as_ref().and_then(Launched::reaped_cpu_ns);
    let task_times = (session.accounts).finish(online_cpus().len(), reaped);
    let asked = std::mem::take(&mut session.asked);
    let unfinished = match &session.source {
        Source::Kernel(source) => source.unfinished_tables(),
        Source::Rings(..) => None,
    };
    // Accounts of the whole machine are not those of one user's processes.
    let is_own = matches!(session.source, Source::Rings(_, Tasks::Own));
    let mut recording = session.into_recording(start_unix_ns, duration_ns);
    recording.task_times = task_times.filter(|_| !is_own);
    if let TargetSpec::Command(command) = &options.target
        && exit.is_some()
    {
        let processes: Vec<u32> = recording.threads.iter().map(|thread| thread.pid).collect();
        remove_unasked_logs(command, &asked, &processes);
    }
    Ok(Outcome {
        recording,
        exit,
        running: launched.filter(|_| exit.is_none()),
        left_running,
        without_tables: unfinished.map_or_else(Vec::new, UnfinishedTables::into_files),
        own_cpu_ns: own_cpu_ns() - cpu_before,
    })
}

struct RecordingSession<'a, 'memory> {
    options: &'a Options,
    events: Vec<(EventSpec, u64)>,
    sample_cost_ns: Option<u64>,
    notes: Vec<String>,
    /// Right whose lack makes samples come through ring buffers.
    missing_right: Option<String>,
    /// Note on the rate for the user who waits, not for the reader of the result.
    rate_note: Option<String>,
    source: Source<'memory>,
    launched: Option<Launched>,
    /// Variables by which the command was asked to write the names of its functions.
    asked: Vec<&'static str>,
    process: Option<OwnedFd>,
    accounts: TaskAccounts,
    /// Asks JVMs for names, if requested.
    jvms: Option<JvmNames>,
    python_threads: PythonThreads,
    /// Tells clients from servers; of commands whose waits are recorded.
    sockets: SocketWatch,
    #[cfg(target_arch = "x86_64")]
    bursts: Option<crate::recording::bursts::Bursts>,
    collection: Collection,
}

impl<'a, 'memory> RecordingSession<'a, 'memory> {
    /// Prepares everything up to the first sample.
    fn prepare(options: &'a Options, memory: &'memory mut LoaderMemory) -> Result<Self, Error> {
        check_process_ids()?;
        let mut specs = choose_events(&options.events)?;
        if options.branches && !specs.iter().any(|spec| spec.branches) {
            specs.push(EventSpec::branch_records());
            if options.events.is_empty() {
                // Instructions tell the total amount of work.
                specs.push(EventSpec::parse("instructions")?);
            }
        }
        let off_cpu_events = if options.off_cpu { 2 } else { 0 };
        if specs.len() + off_cpu_events > MAX_EVENTS {
            return Err(Error::TooManyEvents {
                asked: specs.len() + off_cpu_events,
                limit: MAX_EVENTS,
            });
        }
        check_rate(options)?;
        if options.path_bursts.is_some()
            && !(cfg!(target_arch = "x86_64") && matches!(options.target, TargetSpec::Command(_)))
        {
            return Err(Error::Refused {
                what: "path bursts".into(),
                reason: "only commands that vitalfew starts are followed, and x86-64 code".into(),
            });
        }
        if options.registers && !cfg!(target_arch = "x86_64") {
            return Err(Error::Refused {
                what: "branches from registers".into(),
                reason: "only x86-64 code is interpreted".into(),
            });
        }
        let process = match options.target {
            TargetSpec::Process(pid) => Some(open_process(pid)?),
            _ => None,
        };
        let mut session = Self {
            options,
            events: Vec::new(),
            sample_cost_ns: None,
            notes: Vec::new(),
            missing_right: None,
            rate_note: None,
            source: Source::Rings(Box::new(RingSource::none(options)), Tasks::All),
            launched: None,
            asked: Vec::new(),
            process,
            accounts: TaskAccounts::open(&options.target),
            jvms: options
                .ask_runtimes
                .then(|| JvmNames::new(!matches!(options.target, TargetSpec::Command(_)))),
            python_threads: PythonThreads::default(),
            sockets: SocketWatch::default(),
            #[cfg(target_arch = "x86_64")]
            bursts: None,
            collection: Collection::new(specs.len() + off_cpu_events),
        };
        if options.target == TargetSpec::Machine && own_pid_namespace().is_some() {
            session.notes.push(
                "of this machine only the processes of vitalfew's own PID namespace (a container) are known; for all of them record on the host, or give the container the host's PID namespace (--pid=host)".into(),
            );
        }
        let cpus = online_cpus();
        match session.kernel_source(&specs, memory, &cpus)? {
            Some(source) => session.source = Source::Kernel(source),
            None => session.ring_source(&specs, &cpus)?,
        }
        Ok(session)
    }

    /// Returns the collector in the kernel, if it is wanted and available.
    fn kernel_source(
        &mut self,
        specs: &[EventSpec],
        memory: &'memory mut LoaderMemory,
        cpus: &[i32],
    ) -> Result<Option<Box<KernelSource<'memory>>>, Error> {
        let options = self.options;
        if !self.counts_in_kernel(specs)? {
            return Ok(None);
        }
        let setting = self.kernel_setting(specs);
        let Some(mut source) = self.open_kernel_source(setting, memory, cpus)? else {
            return Ok(None);
        };
        let (collection, target) = (&mut self.collection, &options.target);
        source.watch_processes()?;
        match target {
            TargetSpec::Machine => collection.maps.scan_all(&mut collection.images),
            TargetSpec::Process(pid) => {
                collection.maps.scan_process(*pid, &mut collection.images);
            }
            TargetSpec::Command(_) => {}
        }
        let cost = self.measure_cost(specs, |spec| source.sample_cost(spec))?;
        self.settle_periods(specs, cost);
        if setting.tables {
            source.make_tables(options, &files_of_target(&options.target))?;
        }
        let target = match &options.target {
            TargetSpec::Machine => None,
            TargetSpec::Process(pid) => Some((*pid, true)),
            TargetSpec::Command(command) => Some((
                self.launch_command(command, source.walks_by_tables())?,
                false,
            )),
        };
        source.open_events(&self.events, target, cpus)?;
        Ok(Some(source))
    }

    /// Returns whether samples are to be counted in the kernel, as far as that is known before
    /// trying.
    fn counts_in_kernel(&mut self, specs: &[EventSpec]) -> Result<bool, Error> {
        let options = self.options;
        let branches = specs.iter().any(|spec| spec.branches);
        let one_by_one = options.call_graph == CallGraph::Dwarf || options.registers || branches;
        if options.path == Path::Rings || one_by_one {
            if options.off_cpu || options.path == Path::Kernel {
                return Err(Error::Refused {
                    what: "time off the CPU and counting in the kernel".into(),
                    reason: "not together with --call-graph dwarf, --registers, branch records or ring buffers; use -g".into(),
                });
            }
            return Ok(false);
        }
        // The doctor's probe chooses the way and explains it.
        if options.path == Path::Best && !options.off_cpu {
            let capabilities = crate::capabilities::probe_machine();
            if let Err(gap) = capabilities.kernel_counts() {
                self.missing_right = Some(gap.need());
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn kernel_setting(&mut self, specs: &[EventSpec]) -> Setting {
        let options = self.options;
        let first = specs.len() as u16;
        let stacks = matches!(
            options.call_graph,
            CallGraph::FramePointer | CallGraph::Tables
        );
        let tables = options.call_graph == CallGraph::Tables || options.off_cpu && !stacks;
        let setting = Setting {
            only_targets: options.target != TargetSpec::Machine,
            stacks,
            tables: tables && can_walk_by_tables(),
            per_process: options.separation >= Separation::Processes,
            per_thread: options.separation >= Separation::Threads,
            off_cpu: options.off_cpu,
            tracepoints: specs.iter().any(|s| s.kind == EventKind::Tracepoint),
            off_events: [first, first + 1],
            lasting: false,
        };
        if tables && !setting.tables {
            self.notes.push(
                "stacks are followed by frame pointers: to unwind them by tables in the kernel takes Linux 6.1".into(),
            );
        }
        setting
    }

    /// Opens the collector in the kernel; `None` if that fails and ring buffers will do.
    fn open_kernel_source(
        &mut self,
        setting: Setting,
        memory: &'memory mut LoaderMemory,
        cpus: &[i32],
    ) -> Result<Option<Box<KernelSource<'memory>>>, Error> {
        let options = self.options;
        match KernelSource::open(memory, setting, cpus, self.period_jitter()) {
            Ok(source) => Ok(Some(Box::new(source))),
            Err(error) if options.path == Path::Best && !options.off_cpu => {
                self.notes.push(format!(
                    "samples come through ring buffers, because counting in the kernel is not possible: {}",
                    first_cause(&error)
                ));
                Ok(None)
            }
            Err(error) => {
                let what = if options.off_cpu {
                    "waits (--off-cpu)".to_owned()
                } else {
                    Question::Bpf.to_string()
                };
                let gap = crate::capabilities::probe_machine().kernel_counts().err();
                Err(gap.map_or(error, |gap| gap.refuse(what)))
            }
        }
    }

    fn ring_source(&mut self, specs: &[EventSpec], cpus: &[i32]) -> Result<(), Error> {
        let options = self.options;
        let cost = self.measure_cost(specs, |spec| RingSource::sample_cost(options, spec))?;
        self.settle_periods(specs, cost);
        // An inherited clock starts anew in each process, so that short processes are seen too
        // rarely. With the right to do so, every CPU is sampled, and samples of other processes are
        // skipped.
        let machine = crate::capabilities::probe_machine().system_wide();
        let all = machine.is_ok();
        let tasks = match (&options.target, machine) {
            (TargetSpec::Machine, Err(_)) if options.as_permitted => Tasks::Own,
            (TargetSpec::Machine, Err(gap)) => return Err(gap.refuse(Question::WholeMachine)),
            (TargetSpec::Machine, Ok(())) => Tasks::All,
            (TargetSpec::Process(pid), _) if all => Tasks::AllForProcess(*pid),
            (TargetSpec::Process(pid), _) => Tasks::Process(*pid),
            (TargetSpec::Command(command), _) if all => {
                Tasks::AllForCommand(self.launch_command(command, false)?)
            }
            (TargetSpec::Command(command), _) => {
                Tasks::Command(self.launch_command(command, false)?)
            }
        };
        let source = RingSource::open(options, &self.events, &tasks, cpus, self.period_jitter())?;
        let limits = limits_note(tasks, source.kernel, self.missing_right.as_deref());
        self.notes.extend(limits);
        if !source.kernel {
            for (spec, _) in &self.events {
                if ["context-switches", "cpu-migrations"].contains(&spec.name.as_str()) {
                    self.notes.push(format!(
                        "{} happen in the kernel, so none will be seen",
                        spec.name
                    ));
                }
            }
        }
        if let Some(error) = &source.without_snapshots {
            self.notes.push(format!(
                "of memory nothing is known at samples, so that fewer branches are seen: {}",
                first_cause(error)
            ));
        }
        self.source = Source::Rings(Box::new(source), tasks);
        Ok(())
    }

    /// Measures the cost of a sample of the first timed event, if the rate depends on it.
    fn measure_cost(
        &self,
        specs: &[EventSpec],
        measure: impl FnOnce(&EventSpec) -> Result<u64, Error>,
    ) -> Result<Option<u64>, Error> {
        let timed = specs.iter().find(|spec| spec.is_timed());
        match (self.options.rate, timed) {
            (Rate::Overhead(_), Some(spec)) => measure(spec).map(Some),
            _ => Ok(None),
        }
    }

    fn settle_periods(&mut self, specs: &[EventSpec], cost_ns: Option<u64>) {
        let frequency = match self.options.rate {
            Rate::Frequency(frequency) => frequency,
            Rate::Overhead(percent) => {
                let most = Rate::MOST.min(perf::max_sample_rate()).max(1);
                let least = Rate::LEAST.min(most);
                if let Some(cost) = cost_ns
                    && cost * least > (percent * 1e7) as u64
                {
                    self.rate_note = Some(format!(
                        "at the least rate, {least} Hz, samples take {:.1} % of each busy CPU, more than the {percent} % asked for",
                        (cost * least) as f64 / 1e7
                    ));
                }
                rate_within(percent, cost_ns.unwrap_or(0), (least, most))
            }
        };
        self.sample_cost_ns = cost_ns;
        self.events = specs
            .iter()
            .map(|spec| (spec.clone(), spec.period_at(frequency)))
            .collect();
    }

    /// Starts the command, which waits. It is not asked for names that walks by tables read
    /// themselves.
    fn launch_command(&mut self, command: &[OsString], by_tables: bool) -> Result<u32, Error> {
        let environment = if self.options.ask_runtimes {
            runtime_environment(command, by_tables)
        } else {
            Vec::new()
        };
        self.asked = environment.iter().map(|(name, _)| *name).collect();
        let launched = Launched::fork_waiting_with(command, &environment)?;
        let pid = launched.pid();
        self.launched = Some(launched);
        Ok(pid)
    }

    fn period_jitter(&self) -> Option<Jitter> {
        (!self.options.fixed_period).then(|| Jitter::new(unix_ns()))
    }

    fn collector_used(&self) -> Collector {
        match self.source {
            Source::Kernel(_) => Collector::Bpf,
            Source::Rings(..) => Collector::Ring,
        }
    }

    fn has_stacks(&self) -> bool {
        matches!(&self.source, Source::Kernel(source) if source.walks_by_tables())
    }

    /// Returns how stacks were recorded in the end.
    fn call_graph(&self) -> CallGraph {
        match (&self.source, self.options.call_graph) {
            (Source::Kernel(source), CallGraph::Tables) if source.walks_by_tables() => {
                CallGraph::Tables
            }
            (_, CallGraph::Tables) => CallGraph::FramePointer,
            (_, asked) => asked,
        }
    }

    fn frequency_of(&self, spec: &EventSpec, period: u64) -> u64 {
        // The inverse of period_at, which rounds down.
        spec.period_at(1).checked_div(period).unwrap_or(0)
    }

    /// Starts the samples and the target; returns the time on the monotonic clock and since 1970.
    fn start_sampling(&mut self) -> Result<(u64, u64), Error> {
        match &mut self.source {
            Source::Kernel(source) => source.enable()?,
            Source::Rings(source, tasks) => {
                let (collection, tasks) = (&mut self.collection, &*tasks);
                source.enable(tasks)?;
                match tasks {
                    Tasks::All | Tasks::Own => collection.maps.scan_all(&mut collection.images),
                    Tasks::Process(pid) | Tasks::AllForProcess(pid) => {
                        collection.maps.scan_process(*pid, &mut collection.images);
                    }
                    Tasks::Command(_) | Tasks::AllForCommand(_) => {}
                }
            }
        }
        self.accounts.begin(match self.options.target {
            TargetSpec::Process(pid) => Some(pid),
            _ => self.launched.as_ref().map(Launched::pid),
        });
        let start = (monotonic_ns(), unix_ns());
        if self.options.timeline {
            let length = TICK.as_nanos() as u64;
            self.collection.slices = Some(Slices::begin_at(start.0, length));
        }
        if let Some(launched) = &mut self.launched {
            launched.start()?;
            #[cfg(target_arch = "x86_64")]
            if let Some(percent) = self.options.path_bursts {
                self.bursts = Some(crate::recording::bursts::Bursts::new(
                    launched.pid(),
                    percent,
                ));
            }
        }
        Ok(start)
    }

    fn run_until_end(
        &mut self,
        stop: &AtomicBool,
        start: u64,
        observe: &mut dyn FnMut(Progress),
    ) -> Result<(), Error> {
        let end = self
            .options
            .duration
            .map(|duration| start.saturating_add(duration.as_nanos() as u64));
        let tick = match self.options.path_bursts {
            Some(_) => BURST_TICK,
            None => TICK,
        };
        let mut ticked = Instant::now();
        let begin = Instant::now();
        loop {
            let look = if begin.elapsed() < Duration::from_secs(1) && self.has_stacks() {
                EARLY_LOOK
            } else {
                LOOK
            };
            let left = end.map_or(look, |end| {
                Duration::from_nanos(end.saturating_sub(monotonic_ns())).min(look)
            });
            self.wait_for_work(left);
            if stop.load(Ordering::Relaxed) || end.is_some_and(|end| monotonic_ns() >= end) {
                return Ok(());
            }
            let exited = self
                .launched
                .as_mut()
                .is_some_and(|l| l.try_wait().is_some());
            if exited || self.process.as_ref().is_some_and(is_readable) {
                return Ok(());
            }
            let is_due = ticked.elapsed() >= tick;
            if is_due {
                // At fixed times, so that slices of time have one drain each; a late drain sets a
                // new beat.
                ticked += tick;
                if ticked.elapsed() >= tick {
                    ticked = Instant::now();
                }
            }
            match &mut self.source {
                Source::Kernel(source) if is_due => source.tick(&mut self.collection)?,
                Source::Kernel(source) => source.read_bookkeeping(&mut self.collection),
                Source::Rings(source, _) => source.tick(&mut self.collection, is_due),
            }
            if !is_due {
                continue;
            }
            #[cfg(target_arch = "x86_64")]
            if let Some(bursts) = &mut self.bursts {
                bursts.tick(&mut self.collection);
            }
            self.accounts.tick();
            self.look_at_jvms();
            self.look_at_threads(false);
            self.look_at_sockets();
            observe(Progress::Samples(self.samples_taken()));
        }
    }

    /// Makes recorded JVMs write names, if it is time.
    fn look_at_jvms(&mut self) {
        if let Some(mut jvms) = self.jvms.take() {
            let Collection { maps, images, .. } = &self.collection;
            jvms.ask_due(maps, images, |pid| self.asks_jvm(pid));
            self.jvms = Some(jvms);
        }
    }

    /// Reads the names of Python's threads, of all running processes or of those that are due.
    fn look_at_threads(&mut self, all: bool) {
        let mut threads = std::mem::take(&mut self.python_threads);
        let Collection { maps, images, .. } = &self.collection;
        threads.look(maps, images, |pid| self.is_target(pid), all);
        self.python_threads = threads;
    }

    /// Looks at what the sockets of a command's processes are for, if it is time.
    fn look_at_sockets(&mut self) {
        let launched = self.launched.as_ref().filter(|_| self.options.off_cpu);
        let Some(launched) = launched.map(Launched::pid) else {
            return;
        };
        let mut sockets = std::mem::take(&mut self.sockets);
        sockets.look_at_processes(|| match self.remaining_processes() {
            unknown if unknown.is_empty() => vec![launched],
            processes => processes,
        });
        self.sockets = sockets;
    }

    /// Asks the remaining JVMs for names at the end.
    fn finish_jvms(&mut self) {
        if let Some(mut jvms) = self.jvms.take() {
            let Collection { maps, images, .. } = &self.collection;
            jvms.ask_remaining(maps, images, |pid| self.asks_jvm(pid));
            self.jvms = Some(jvms);
        }
    }

    /// Returns whether a JVM must be asked for the names of its code.
    fn asks_jvm(&self, pid: u32) -> bool {
        let names_itself = match &self.source {
            Source::Kernel(source) => source.names_methods(pid),
            Source::Rings(..) => false,
        };
        self.is_target(pid) && !names_itself
    }

    fn is_target(&self, pid: u32) -> bool {
        match &self.source {
            Source::Kernel(source) => source.is_target(pid),
            Source::Rings(_, tasks) => tasks.process().is_none_or(|process| process == pid),
        }
    }

    /// Returns the processes of a command that still run. Only the kernel's programs know them.
    fn remaining_processes(&self) -> Vec<u32> {
        let Source::Kernel(source) = &self.source else {
            return Vec::new();
        };
        let processes = std::fs::read_dir("/proc").into_iter().flatten();
        let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(|pid| source.is_target(*pid)).collect()
    }

    /// Returns the samples so far, including those in the kernel's tables.
    fn samples_taken(&self) -> u64 {
        let totals = &self.collection.totals;
        let drained: u64 = totals.iter().map(|total| total.stored).sum();
        match &self.source {
            Source::Kernel(source) => drained + source.undrained_samples(totals.len()),
            Source::Rings(..) => drained,
        }
    }

    /// Waits for the target's end, a ring that fills, or the timeout.
    fn wait_for_work(&self, timeout: Duration) {
        if let Source::Rings(source, _) = &self.source
            && source.is_ready()
        {
            return;
        }
        let mut fds: Vec<RawFd> = match &self.source {
            Source::Kernel(source) => source.descriptors().collect(),
            Source::Rings(source, _) => source.descriptors().collect(),
        };
        fds.extend(self.launched.as_ref().map(|l| l.pidfd().as_raw_fd()));
        fds.extend(self.process.as_ref().map(|fd| fd.as_raw_fd()));
        poll_descriptors(&fds, timeout);
    }

    fn stop_collecting(&mut self) -> Result<(), Error> {
        match &mut self.source {
            Source::Kernel(source) => source.finish(&mut self.collection),
            Source::Rings(source, _) => source.finish(&mut self.collection),
        }
    }

    fn multiplex_scale(&self, number: usize) -> f64 {
        match (&self.source, self.events.get(number)) {
            (Source::Kernel(source), _) => source.multiplex_scale(number),
            (Source::Rings(source, _), Some((spec, _))) if spec.shares_counters() => {
                source.multiplex_scale(number)
            }
            _ => 1.0,
        }
    }

    /// Returns the factor by which an event's period exceeds the requested one.
    fn slowdown(&self, number: usize) -> u64 {
        match &self.source {
            Source::Kernel(_) => 1,
            Source::Rings(source, _) => source.slowdown(number),
        }
    }

    fn into_recording(self, start_unix_ns: u64, duration_ns: u64) -> Recording {
        let collector = self.collector_used();
        let options = self.options;
        let call_graph = self.call_graph();
        let target = match &options.target {
            TargetSpec::Command(command) => Target::Command(command_text(command)),
            TargetSpec::Process(pid) => Target::Process(*pid),
            TargetSpec::Machine => Target::Machine,
        };
        let mut recording = Recording::new(read_host(), target, collector, call_graph);
        recording.start_unix_ns = start_unix_ns;
        recording.duration_ns = duration_ns;
        recording.sockets = self.sockets.seen;
        recording.kernel = match &self.source {
            Source::Kernel(_) => true,
            Source::Rings(source, _) => source.kernel,
        };
        recording.warnings = self.notes.clone();
        if let Source::Kernel(source) = &self.source {
            recording.set_walks(source.walk_counts());
        }
        #[cfg(target_arch = "x86_64")]
        recording
            .warnings
            .extend(self.bursts.iter().map(|bursts| bursts.describe_bursts()));
        recording
            .warnings
            .extend(branches::summary(&self.collection.stretches));
        for (number, total) in self.collection.totals.iter().enumerate() {
            let scale = self.multiplex_scale(number);
            let (name, unit, period, frequency) = match self.events.get(number) {
                Some((spec, period)) => {
                    let period = period * self.slowdown(number);
                    let rate = spec
                        .is_timed()
                        .then(|| self.frequency_of(spec, period) as f64);
                    (spec.name.clone(), Unit::Samples, period, rate)
                }
                None => {
                    let off = ["off-cpu", "run-queue"][number - self.events.len()];
                    (off.to_owned(), Unit::Nanoseconds, 1, None)
                }
            };
            recording.events.push(Event {
                name,
                unit,
                period,
                frequency,
                mixed_periods: false,
                multiplex_scale: scale,
                taken: total.taken + total.lost,
                stored: total.stored,
                dropped: total.dropped,
                lost: total.lost,
            });
        }
        let directory = options.table_directory.as_deref();
        finish_recording(self.collection, &mut recording, directory);
        self.python_threads.name_threads(&mut recording);
        let mut notes = BTreeSet::new();
        if let Source::Kernel(source) = &self.source {
            notes = source.walk_notes(&recording.images);
        }
        if let Some(jvms) = &self.jvms {
            let pids: FxHashSet<_> = recording.samples.iter().map(|sample| sample.pid).collect();
            let is_sampled = |pid| pids.contains(&Some(pid)) || pids.contains(&None);
            notes.extend(jvms.notes(is_sampled));
        }
        recording.warnings.extend(notes);
        recording
    }
}

/// Says in one line what samples through ring buffers lack, and what brings it.
fn limits_note(tasks: Tasks, kernel: bool, missing_right: Option<&str>) -> Option<String> {
    let mut seen = match (tasks, kernel) {
        (Tasks::Own, false) => vec!["only your own processes are sampled, in user mode"],
        (Tasks::Own, true) => vec!["only your own processes are sampled"],
        (_, false) => vec!["only user mode is sampled"],
        (_, true) => Vec::new(),
    };
    if matches!(tasks, Tasks::Command(_)) {
        seen.push("processes shorter than a sampling period are missed");
    }
    let remedy = match (missing_right, kernel) {
        (Some(need), false) => format!("waits and kernel time need {need}"),
        (Some(need), true) => format!("waits need {need}"),
        (None, false) => "kernel.perf_event_paranoid forbids the kernel to this user; as root: sysctl kernel.perf_event_paranoid=1".to_owned(),
        (None, true) => String::new(),
    };
    let parts = [seen.join(", and "), remedy].into_iter();
    let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
    let rights = missing_right.map_or("", |_| LIMITED_RIGHTS);
    (!parts.is_empty()).then(|| format!("{rights}{}", parts.join(": ")))
}

/// Returns the files that a command maps when it starts, or that a process has mapped. Any word of
/// a command may be a program, as in `timeout 9 make`.
fn files_of_target(target: &TargetSpec) -> Vec<PathBuf> {
    let files: Vec<PathBuf> = match target {
        TargetSpec::Command(command) => {
            let words = command.iter().take(MOST_PROGRAM_WORDS);
            words.flat_map(startup_files).collect()
        }
        TargetSpec::Process(pid) => {
            let maps = std::fs::read(process_file(*pid, "maps")).unwrap_or_default();
            let maps = String::from_utf8_lossy(&maps);
            let code = MapsLine::parse_all(&maps).filter(|line| line.executable);
            let files = code.filter(|line| line.file.is_some());
            files
                .map(|line| PathBuf::from(line.path))
                .take(MOST_PROCESS_FILES)
                .collect()
        }
        TargetSpec::Machine => Vec::new(),
    };
    let mut seen = FxHashSet::default();
    files
        .into_iter()
        .filter(|path| seen.insert(path.clone()))
        .collect()
}

/// Returns the requested events; without any, cycles if the machine has them, otherwise the clock.
pub(crate) fn choose_events(events: &[EventSpec]) -> Result<Vec<EventSpec>, Error> {
    if !events.is_empty() {
        for (index, event) in events.iter().enumerate() {
            if events[..index].iter().any(|e| e.name == event.name) {
                return Err(Error::EventSyntax {
                    text: event.name.clone(),
                    reason: "is given twice".into(),
                });
            }
        }
        return Ok(events.to_vec());
    }
    let mut cycles = perf::event_attributes(&EventSpec::cycles(), 1_000_000);
    cycles.set_exclude_kernel(1);
    let available = perf::open_event(&cycles, Scope { pid: 0, cpu: -1 }).is_ok();
    Ok(vec![if available {
        EventSpec::cycles()
    } else {
        EventSpec::cpu_clock()
    }])
}

fn check_rate(options: &Options) -> Result<(), Error> {
    let limit = perf::max_sample_rate();
    if let Rate::Frequency(asked) = options.rate
        && asked > limit
    {
        return Err(Error::RateTooHigh { asked, limit });
    }
    for spec in &options.events {
        if let (EventKind::Clock, Some(period)) = (spec.kind, spec.period) {
            let asked = 1_000_000_000 / period;
            if asked > limit {
                return Err(Error::RateTooHigh { asked, limit });
            }
        }
    }
    Ok(())
}

/// Waits until one of the descriptors is readable, or for `timeout`.
pub(crate) fn poll_descriptors(fds: &[RawFd], timeout: Duration) {
    let mut polls: Vec<libc::pollfd> = fds
        .iter()
        .map(|&fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    let timeout = timeout.as_millis().max(1) as libc::c_int;
    // SAFETY: the array lives through the call, with the length given.
    unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, timeout) };
    // A ring whose tasks have all ended is always readable; do not spin on it.
    if polls.iter().any(|p| p.revents & libc::POLLHUP != 0) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Opens a descriptor that becomes readable when the process ends.
fn open_process(pid: u32) -> Result<OwnedFd, Error> {
    // SAFETY: a system call without pointers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as libc::c_int;
    if fd < 0 {
        let source = std::io::Error::last_os_error();
        return Err(match source.raw_os_error() {
            Some(libc::ESRCH) => Error::NoSuchProcess { pid },
            _ => Error::ProcessRefused { pid, source },
        });
    }
    // SAFETY: the kernel has just returned this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn is_readable(fd: &OwnedFd) -> bool {
    let mut poll = libc::pollfd {
        fd: fd.as_fd().as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one descriptor, no waiting.
    unsafe { libc::poll(&mut poll, 1, 0) == 1 }
}

/// Returns the first cause of an error, in one line.
fn first_cause(error: &Error) -> String {
    if let Error::Refused { reason, .. } = error {
        return reason.clone();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause
        .to_string()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_says_what_is_missing_and_what_brings_it() {
        let note = |tasks, kernel, need| limits_note(tasks, kernel, need);
        assert_eq!(
            note(Tasks::Command(1), false, Some("RIGHTS")).as_deref(),
            Some(
                "limited rights: only user mode is sampled, and processes shorter than a sampling period are missed: waits and kernel time need RIGHTS"
            )
        );
        assert_eq!(
            note(Tasks::Own, true, Some("RIGHTS")).as_deref(),
            Some("limited rights: only your own processes are sampled: waits need RIGHTS")
        );
        let paranoid = note(Tasks::Process(1), false, None);
        assert!(paranoid.is_some_and(|note| note.contains("sysctl kernel.perf_event_paranoid=1")));
        assert_eq!(
            note(Tasks::All, true, Some("RIGHTS")).as_deref(),
            Some("limited rights: waits need RIGHTS")
        );
        assert_eq!(note(Tasks::All, true, None), None);
    }
}
