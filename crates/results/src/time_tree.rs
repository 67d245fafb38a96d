//! All the time of a program in one call tree: running and waiting.

use crate::swapping::{is_of_kernel, program_swaps};
use crate::time_kind::{
    SystemCallName, WaitKind, WaitSurroundings, WakingKind, running_kind, spins_for_team, wait_kind,
};
use analysis::judgement::{
    CpuWaits, DearLine, EndedWait, FrameRole, NodeWork, PROCESS_START, THREAD_START, ThreadWork,
    find_runtime_work,
};
use profile::known_code::{CodeKind, KnownCode, RUNTIME, RuntimeWork, is_c_library};
use profile::{
    CallTree, CallTreeBuilder, CallTreeError, DraftNode, EndingThread, KERNEL_CALL, Location,
    MethodId, NodeId, PAGE_FAULT, Recording, Sample, SourceFrame, StackId, SymbolTable, TimeKind,
    Unit, ValueType, Waker, plain_name,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};

pub use crate::time_kind::IdleKind;

/// Running time of a thread, as a part of its running and sleeping time, below which it is a helper
/// that only runs now and then.
const HELPER: f64 = 0.02;
/// Part of a thread's own waiting time that the waits ended by it must take for others to depend on
/// it.
const NEEDED: f64 = 0.5;

/// Part of the waits at one place that timers and signals must end if nothing else is awaited
/// there, and part that timers must end.
const TIMED: f64 = 0.9;
const TIMED_AT_LEAST: f64 = 0.25;
/// Number of threads above which starting and ending processes is one frame.
const MANY_THREADS: usize = 50;
/// Part of a function's time above which one of its lines is reported.
const DEAR: f64 = 0.25;
/// Names of the profiler's own threads.
const PROFILER: [&str; 3] = ["vitalfew", "unwind-tables", "jvm-names"];
/// System calls that start and end processes.
const PROCESS_CALLS: [&str; 4] = ["execve", "execveat", "exit", "exit_group"];

/// Time of a program by calling context. All times are in nanoseconds, summed over threads.
#[derive(Clone, Debug)]
pub struct TimeTree {
    /// Running and costly waits. Its value types are the sum, and one for each of
    /// [`TimeKind::ALL`]. The kernel's frames of a stack are one frame: the system call, or the
    /// page fault. So are those of a runtime's own work.
    pub tree: CallTree,
    /// The frame that stands for a function of a runtime, by the function's plain name.
    pub in_runtimes: BTreeMap<String, &'static str>,
    /// Waits that are no loss.
    pub idle: BTreeMap<IdleKind, u64>,
    /// The dearest line of each function that takes time.
    pub dear_lines: Vec<DearLine>,
    /// Waits in the tree, with the threads that ended them.
    pub ended_waits: Vec<EndedWait>,
    /// Time in which threads were ready to run, but had no CPU.
    pub cpu_waits: CpuWaits,
    /// Time for each sample of running threads.
    pub each_sample: f64,
    /// Number of threads that ran for more than a twentieth of the busiest one's time.
    pub busy_threads: usize,
    /// Number of threads with more than a twentieth of the largest working time: running, or
    /// waiting for anything but other work of the program.
    pub threads_at_work: usize,
    /// Notable work of each thread, without the turns of helpers.
    pub threads: Vec<ThreadWork>,
}

impl TimeTree {
    /// Returns the time of each kind, in nanoseconds.
    pub fn time_by_kind(&self) -> BTreeMap<TimeKind, u64> {
        let kinds = TimeKind::ALL.into_iter().zip(1..);
        let times = kinds.map(|(kind, value)| (kind, self.tree.total(value).max(0) as u64));
        times.filter(|(_, ns)| *ns > 0).collect()
    }

    /// Returns the part of the working time in which threads waited.
    pub fn waiting_part(&self) -> f64 {
        let kinds = TimeKind::ALL.iter().zip(1..);
        let waits = kinds.filter(|(kind, _)| !kind.is_sampled());
        let waited: i64 = waits.map(|(_, value)| self.tree.total(value)).sum();
        waited as f64 / self.tree.total(0).max(1) as f64
    }
}

/// Combines running, by the first event, and waiting, by `record --off-cpu`, in one tree.
///
/// # Errors
/// If the tree cannot be built.
pub fn make_time_tree(
    recording: &Recording,
    table: &SymbolTable,
) -> Result<TimeTree, CallTreeError> {
    let mut maker = TreeMaker::new(recording, table);
    maker.count_waits_for_threads();
    maker.find_late_part();
    for sample in &recording.samples {
        maker.add_sample(sample)?;
    }
    let mut cpu_waits = maker.cpu_waits;
    cpu_waits.limit_to(accounted_waits(recording));
    let dear_lines = maker.lines.dearest_lines(&maker.functions);
    let in_runtimes = maker.in_runtimes.iter();
    let in_runtimes = in_runtimes.filter_map(|(method, frame)| {
        let (name, _) = maker.functions.get(method)?;
        Some((plain_name(name).to_owned(), *frame))
    });
    let in_runtimes = in_runtimes.collect();
    let (tree, numbers) = maker.builder.finish_numbered()?;
    let threads = works_of_threads(maker.work, &numbers);
    let ended = maker.ended_waits.into_iter();
    let ended = ended.map(|((node, by), ns)| EndedWait {
        node: NodeId(numbers[node.index()]),
        by,
        ns,
    });
    Ok(TimeTree {
        tree,
        in_runtimes,
        dear_lines,
        ended_waits: ended.collect(),
        idle: maker.idle,
        cpu_waits,
        each_sample: maker.each_sample,
        busy_threads: large_threads(&maker.running.ran).len(),
        threads_at_work: large_threads(&maker.at_work).len(),
        threads,
    })
}

/// Running and sleeping time of each thread.
#[derive(Default)]
struct ThreadTimes {
    ran: FxHashMap<Option<u32>, f64>,
    waited: FxHashMap<Option<u32>, f64>,
    /// Time that others waited for each thread.
    waited_for: FxHashMap<Option<u32>, f64>,
}

impl ThreadTimes {
    /// Returns whether a thread does next to nothing, another one does more, and no thread waits
    /// long for it.
    fn is_helper(&self, thread: Option<u32>) -> bool {
        let of_thread =
            |times: &FxHashMap<Option<u32>, f64>| times.get(&thread).copied().unwrap_or_default();
        let (ran, waited) = (of_thread(&self.ran), of_thread(&self.waited));
        let others = self.ran.values().any(|other| *other > 4.0 * ran);
        let is_needed = of_thread(&self.waited_for) >= NEEDED * waited;
        others && ran < HELPER * (ran + waited) && !is_needed
    }
}

/// Returns the frame for what a program starts again and again, if anything.
fn what_starts(recording: &Recording) -> Option<&'static str> {
    let threads: BTreeSet<u32> = recording.threads.iter().map(|thread| thread.tid).collect();
    let processes: BTreeSet<u32> = recording.threads.iter().map(|thread| thread.pid).collect();
    let name = if processes.len() * 2 > threads.len() {
        PROCESS_START
    } else {
        THREAD_START
    };
    (recording.threads.len() >= MANY_THREADS).then_some(name)
}

/// Returns the threads that have more than a twentieth of the largest time.
fn large_threads(times: &FxHashMap<Option<u32>, f64>) -> FxHashSet<Option<u32>> {
    let most = times.values().copied().fold(0.0, f64::max);
    let large = times.iter().filter(|(_, time)| **time > most / 20.0);
    large.map(|(thread, _)| *thread).collect()
}

/// Returns the work of each thread that has notable work. `numbers` maps draft nodes to nodes of
/// the tree.
fn works_of_threads(
    work: FxHashMap<(Option<u32>, DraftNode), [u64; 2]>,
    numbers: &[u32],
) -> Vec<ThreadWork> {
    let mut times = FxHashMap::default();
    for ((thread, _), cost) in &work {
        *times.entry(*thread).or_default() += cost.iter().sum::<u64>() as f64;
    }
    let large = large_threads(&times);
    let mut threads: BTreeMap<Option<u32>, ThreadWork> = BTreeMap::new();
    let notable = work.into_iter().filter(|(at, _)| large.contains(&at.0));
    for ((thread, node), [running_ns, waiting_ns]) in notable {
        threads.entry(thread).or_default().nodes.push(NodeWork {
            node: NodeId(numbers[node.index()]),
            running_ns,
            waiting_ns,
        });
    }
    threads.into_values().collect()
}

struct TreeMaker<'a> {
    recording: &'a Recording,
    table: &'a SymbolTable,
    builder: CallTreeBuilder,
    running: ThreadTimes,
    /// Time in which each thread ran, or waited for anything but other work of the program.
    at_work: FxHashMap<Option<u32>, f64>,
    /// Running and waiting time of each thread at each node, without waits that other threads end.
    work: FxHashMap<(Option<u32>, DraftNode), [u64; 2]>,
    each_sample: f64,
    idle: BTreeMap<IdleKind, u64>,
    ended_waits: BTreeMap<(DraftNode, EndingThread), u64>,
    cpu_waits: CpuWaits,
    /// Part of the waiting for idle CPUs in which these wake up.
    late_part: f64,
    alone: bool,
    /// Stacks whose waits timers end.
    timed: FxHashSet<StackId>,
    /// True if the program swaps.
    swaps: bool,
    own_threads: FxHashSet<u32>,
    /// The frame for starting and ending processes or threads, if the program does so again and
    /// again.
    starts: Option<&'static str>,
    methods: FxHashMap<Location, Vec<PlacedMethod<'a>>>,
    /// Names of methods with their modules.
    functions: FxHashMap<MethodId, (String, String)>,
    /// The frames that stand for functions of runtimes.
    in_runtimes: FxHashMap<MethodId, &'static str>,
    lines: LineTimes<'a>,
}

/// A function at a place of the code, with its line.
#[derive(Clone, Copy)]
struct PlacedMethod<'a> {
    method: MethodId,
    role: FrameRole,
    line: Option<(&'a str, u32)>,
}

/// The time below each line of each function.
#[derive(Default)]
struct LineTimes<'a> {
    functions: FxHashMap<MethodId, u64>,
    lines: FxHashMap<(MethodId, &'a str, u32), u64>,
    /// Methods of the stack added last.
    seen: FxHashSet<MethodId>,
}

impl<'a> LineTimes<'a> {
    /// Adds the time of a stack, innermost first. The time of a recursive function goes to its
    /// innermost line.
    fn add_stack(&mut self, stack: impl Iterator<Item = PlacedMethod<'a>>, cost: u64) {
        self.seen.clear();
        for PlacedMethod { method, line, .. } in stack {
            if !self.seen.insert(method) {
                continue;
            }
            *self.functions.entry(method).or_default() += cost;
            if let Some((file, line)) = line {
                *self.lines.entry((method, file, line)).or_default() += cost;
            }
        }
    }

    /// Returns the dearest line of each function, if it has at least the share `DEAR` of the
    /// function's time.
    fn dearest_lines(&self, functions: &FxHashMap<MethodId, (String, String)>) -> Vec<DearLine> {
        let mut dearest: BTreeMap<MethodId, (u64, &str, u32)> = BTreeMap::new();
        for ((method, file, line), cost) in &self.lines {
            let known = dearest.entry(*method).or_default();
            *known = (*known).max((*cost, *file, *line));
        }
        let dearest = dearest
            .into_iter()
            .filter_map(|(method, (cost, file, line))| {
                let all = self.functions.get(&method).copied().unwrap_or_default();
                let part = cost as f64 / all.max(1) as f64;
                let function = functions.get(&method).filter(|_| part >= DEAR)?;
                // For functions of JavaScript only their first line is known.
                let place = format!("{}:{line})", file.rsplit('/').next().unwrap_or(file));
                let says_more = !function.0.ends_with(&place);
                says_more.then(|| DearLine {
                    function: function.clone(),
                    line: format!("{file}:{line}"),
                    part,
                })
            });
        dearest.collect()
    }
}

impl<'a> TreeMaker<'a> {
    fn new(recording: &'a Recording, table: &'a SymbolTable) -> Self {
        let value = |name: &str| ValueType {
            name: name.to_owned(),
            unit: "nanoseconds".to_owned(),
        };
        let kinds = TimeKind::ALL.iter().map(|kind| value(kind.phrase()));
        let values = std::iter::once(value("time")).chain(kinds).collect();
        let each_sample = each_sample(recording);
        let mut running = ThreadTimes::default();
        for sample in &recording.samples {
            let weight = sample.weight as f64;
            match recording.event(sample.event).name.as_str() {
                "off-cpu" => *running.waited.entry(sample.tid).or_default() += weight,
                "run-queue" => {}
                _ if sample.event.0 == 0 => {
                    *running.ran.entry(sample.tid).or_default() += weight * each_sample;
                }
                _ => {}
            }
        }
        Self {
            recording,
            table,
            builder: CallTreeBuilder::new(values),
            alone: running.ran.len() <= 1,
            timed: timed_waits(recording, table),
            swaps: program_swaps(recording, table, each_sample),
            running,
            at_work: FxHashMap::default(),
            work: FxHashMap::default(),
            each_sample,
            idle: BTreeMap::new(),
            ended_waits: BTreeMap::new(),
            cpu_waits: CpuWaits::default(),
            late_part: 0.0,
            own_threads: recording.threads.iter().map(|thread| thread.tid).collect(),
            starts: what_starts(recording),
            methods: FxHashMap::default(),
            functions: FxHashMap::default(),
            in_runtimes: FxHashMap::default(),
            lines: LineTimes::default(),
        }
    }

    /// Adds up the waits of threads for each other, by the thread that ended the waits.
    fn count_waits_for_threads(&mut self) {
        use WaitKind::{Costly, Idle};
        let recording = self.recording;
        for sample in &recording.samples {
            let waker = sample.waker.map(|waker| waker.tid);
            let by_other = waker.filter(|by| {
                recording.event(sample.event).name == "off-cpu" && self.own_threads.contains(by)
            });
            let Some(by) = by_other else {
                continue;
            };
            let (user, kernel) = self.split_stack(sample.stack);
            let kind = self.wait_kind_of(&user, &kernel, sample.stack);
            let for_threads = Idle(IdleKind::Threads);
            if kind == for_threads || matches!(kind, Costly(TimeKind::Locks | TimeKind::Barriers)) {
                *self.running.waited_for.entry(Some(by)).or_default() += sample.weight as f64;
            }
        }
    }

    /// Returns the names of functions, innermost first like the locations.
    fn names_of(&self, locations: &[Location]) -> Vec<&'a str> {
        let table = self.table;
        let name = |at: &Location| table.procedure(*at).map_or("", |p| &*p.name);
        locations.iter().map(name).collect()
    }

    /// Returns the names of functions, with those of inlined functions.
    fn inlined_names_of(&self, locations: &[Location]) -> Vec<&'a str> {
        let table = self.table;
        let mut names = Vec::with_capacity(locations.len());
        for at in locations {
            let inlined = table.get(*at).map_or(&[][..], |known| &known.inlined);
            names.extend(inlined.iter().map(|call| &*call.function));
        }
        names
    }

    /// Returns the reason of a thread's wait, by the two parts of its stack.
    fn wait_kind_of(&self, user: &[Location], kernel: &[Location], stack: StackId) -> WaitKind {
        let (names, kernel) = (self.names_of(user), self.names_of(kernel));
        let inlined = self.inlined_names_of(user);
        wait_kind(&names, &inlined, &kernel, self.surroundings(stack))
    }

    /// Returns the activity of a running thread.
    fn running_kind_of(&self, user: &[Location], names: &[&str], kernel: &[&str]) -> TimeKind {
        let path = |at: &Location| self.recording.image(at.image).path.as_str();
        let user = user.iter().zip(names);
        let user: Vec<(&str, &str)> = user.map(|(at, name)| (*name, path(at))).collect();
        match running_kind(kernel, self.swaps) {
            TimeKind::Computing if spins_for_team(&user) => TimeKind::Barriers,
            kind => kind,
        }
    }

    fn add_sample(&mut self, sample: &Sample) -> Result<(), CallTreeError> {
        let (user, kernel) = self.split_stack(sample.stack);
        let (in_user, in_kernel) = (self.names_of(&user), self.names_of(&kernel));
        let event = self.recording.event(sample.event).name.as_str();
        let (kind, cost) = match event {
            "run-queue" | "off-cpu" => {
                let kind = self.wait_kind_of(&user, &kernel, sample.stack);
                let cost = match event {
                    "run-queue" => self.wait_for_cpu(sample, kind),
                    _ => sample.weight,
                };
                match kind {
                    WaitKind::Idle(idle) => {
                        *self.idle.entry(idle).or_default() += cost;
                        return Ok(());
                    }
                    WaitKind::Costly(TimeKind::Network) if self.is_ended_by_own(sample) => {
                        *self.idle.entry(IdleKind::Threads).or_default() += cost;
                        return Ok(());
                    }
                    WaitKind::Costly(TimeKind::Sleeping | TimeKind::Network)
                        if self.running.is_helper(sample.tid) =>
                    {
                        *self.idle.entry(IdleKind::Turn).or_default() += cost;
                        self.count_work(sample, cost as f64);
                        return Ok(());
                    }
                    WaitKind::Costly(_) if cost == 0 => return Ok(()),
                    WaitKind::Costly(kind) => (kind, cost),
                }
            }
            _ if sample.event.0 != 0 => return Ok(()),
            _ => {
                let cost = sample.weight as f64 * self.each_sample;
                let kind = self.running_kind_of(&user, &in_user, &in_kernel);
                (kind, cost as u64)
            }
        };
        self.count_work(sample, cost as f64);
        let starts = self
            .starts
            .filter(|_| self.is_process_start(&user, &in_kernel));
        let (mut node, name) = if let Some(starts) = starts {
            (DraftNode::ROOT, Some(starts.to_owned()))
        } else {
            let thread = self.recording.names.get(sample.process);
            let (node, work) = self.node_of_stack(&user, thread, cost)?;
            match work {
                Some(work) if !work.keeps_calls => (node, None),
                _ => (node, kernel_frame(kind, &in_user, &in_kernel)),
            }
        };
        if let Some(name) = name {
            let method = self.builder.method(&name, "[kernel]")?;
            node = self.builder.child(node, method)?;
        }
        let waker = sample.waker.filter(|_| event == "off-cpu");
        if let Some(waker) = waker.filter(|_| is_ended_by_threads(kind)) {
            let by = self.ending_thread(&waker);
            *self.ended_waits.entry((node, by)).or_default() += cost;
        }
        if !matches!(kind, TimeKind::Locks | TimeKind::Barriers) {
            let waits = sample.event.0 != 0;
            self.work.entry((sample.tid, node)).or_default()[usize::from(waits)] += cost;
        }
        let cost = i64::try_from(cost).unwrap_or(i64::MAX);
        self.builder.add(0, node, cost);
        let position = TimeKind::ALL.iter().position(|k| *k == kind);
        self.builder
            .add(1 + position.unwrap_or_default(), node, cost);
        Ok(())
    }

    fn surroundings(&self, stack: StackId) -> WaitSurroundings {
        WaitSurroundings {
            alone: self.alone,
            sockets: self.recording.sockets,
            only_timers: self.timed.contains(&stack),
            swaps: self.swaps,
        }
    }

    /// Returns whether a thread of the program ended a wait.
    fn is_ended_by_own(&self, sample: &Sample) -> bool {
        let waker = sample.waker.filter(|_| self.own_threads.len() > 1);
        waker.is_some_and(|waker| self.own_threads.contains(&waker.tid))
    }

    fn count_work(&mut self, sample: &Sample, ns: f64) {
        *self.at_work.entry(sample.tid).or_default() += ns;
    }

    /// Returns whether a thread belongs to the program: it was sampled, or has the name of one that
    /// was, because short ones have no samples.
    fn is_own_thread(&self, thread: &Waker) -> bool {
        let mut own = self.recording.threads.iter();
        self.own_threads.contains(&thread.tid) || own.any(|own| own.process == thread.process)
    }

    /// Returns whether a process begins or ends: the loader runs, or the kernel in such a call, on
    /// behalf of no function of a program.
    fn is_process_start(&self, user: &[Location], kernel: &[&str]) -> bool {
        let path = |location: &Location| self.recording.image(location.image).path.as_str();
        let loads = user.iter().any(|at| {
            KnownCode::of_file(path(at)).is_some_and(|code| code.kind == CodeKind::Loader)
        });
        let asked = user.iter().any(|at| !is_c_library(path(at)));
        let calls = |name: &&str| {
            let call = SystemCallName::of_function(name);
            call.is_some_and(|SystemCallName(call)| PROCESS_CALLS.contains(&call))
        };
        let faults = user.is_empty() && kernel.iter().any(|name| name.contains("fault"));
        loads || faults || !asked && kernel.iter().any(calls)
    }

    fn ending_thread(&self, waker: &Waker) -> EndingThread {
        let stack = waker.stack.map(|stack| self.split_stack(stack).0);
        let mut user = stack.iter().flatten();
        let asker = user.find(|at| !is_c_library(&self.recording.image(at.image).path));
        let procedure = asker.and_then(|location| self.table.procedure(*location));
        EndingThread {
            thread: self.recording.names.get(waker.process).to_owned(),
            is_own: self.is_own_thread(waker),
            function: procedure.map(|procedure| plain_name(&procedure.name).to_owned()),
        }
    }

    /// Finds the part of the waiting for idle CPUs in which these wake up. That is no lack of CPUs:
    /// the scheduler's own account begins when a thread is in a CPU's queue. A thread that waits
    /// for a disk, or sleeps, waits for the wake-up, too.
    fn find_late_part(&mut self) {
        let (mut all, mut idle) = (0_u64, 0_u64);
        for sample in &self.recording.samples {
            if self.recording.event(sample.event).name == "run-queue" {
                all += sample.weight;
                idle += u64::from(is_of_idle_cpu(sample)) * sample.weight;
            }
        }
        let late = all.saturating_sub(accounted_waits(self.recording));
        self.late_part = (late as f64 / idle.max(1) as f64).min(1.0);
    }

    /// Adds a wait for a CPU to the account of its holder. Returns the part of it in which an idle
    /// CPU still woke up, which belongs to the preceding wait, of this kind.
    fn wait_for_cpu(&mut self, sample: &Sample, before: WaitKind) -> u64 {
        let is_own = sample.waker.is_some_and(|had| self.is_own_thread(&had));
        // A preempted thread did not wait before.
        let is_known = before != WaitKind::Costly(TimeKind::OtherWaits);
        let late = if is_of_idle_cpu(sample) && is_known {
            (self.late_part * sample.weight as f64) as u64
        } else {
            0
        };
        let waits = &mut self.cpu_waits;
        *match sample.waker.filter(|_| !is_of_idle_cpu(sample)) {
            None => &mut waits.nobody_ns,
            Some(_) if is_own => &mut waits.own_ns,
            Some(had) => {
                let name = self.recording.names.get(had.process);
                if PROFILER.contains(&name) {
                    *self.idle.entry(IdleKind::Profiler).or_default() += sample.weight;
                    waits.profiler_ns += sample.weight;
                    return late;
                }
                waits.others.entry(name.to_owned()).or_default()
            }
        } += sample.weight - late;
        late
    }

    /// Splits a stack into its user and its kernel part, innermost first.
    fn split_stack(&self, stack: StackId) -> (Vec<Location>, Vec<Location>) {
        let locations = self.recording.stacks.locations(stack);
        let (kernel, user) = locations.partition(|at| is_of_kernel(self.recording, *at));
        (user, kernel)
    }

    /// Returns the node of a stack's user part, whose lines get its cost; for a runtime's own work,
    /// with that work.
    fn node_of_stack(
        &mut self,
        user: &[Location],
        thread: &str,
        cost: u64,
    ) -> Result<(DraftNode, Option<&'static RuntimeWork>), CallTreeError> {
        let mut stack = Vec::new();
        for (number, location) in user.iter().enumerate().rev() {
            // Code made at run time without a name, such as a JVM's wrapper of a native method,
            // works for its caller.
            if number == 0 || !self.is_nameless_code(*location) {
                stack.extend(self.methods_at(*location)?);
            }
        }
        let roles: Vec<FrameRole> = stack.iter().map(|placed| placed.role).collect();
        let work = find_runtime_work(&roles, thread);
        let inside = work.map(|(work, begin)| (work, stack.split_off(begin)));
        let mut node = DraftNode::ROOT;
        for placed in &stack {
            node = self.builder.child(node, placed.method)?;
        }
        self.lines.add_stack(stack.into_iter().rev(), cost);
        let Some((work, inside)) = inside else {
            return Ok((node, None));
        };
        let frames = inside.iter().map(|placed| (placed.method, work.name));
        self.in_runtimes.extend(frames);
        let method = self.builder.method(work.name, RUNTIME)?;
        Ok((self.builder.child(node, method)?, Some(work)))
    }

    fn is_nameless_code(&self, location: Location) -> bool {
        let image = &self.recording.image(location.image).path;
        image.starts_with("[anon") && self.table.procedure(location).is_none()
    }

    /// Returns the functions at a place, the outermost first.
    fn methods_at(&mut self, location: Location) -> Result<Vec<PlacedMethod<'a>>, CallTreeError> {
        if let Some(known) = self.methods.get(&location) {
            return Ok(known.clone());
        }
        let module = &self.recording.image(location.image).path;
        let known = self.table.get(location);
        let inlined = known.map_or(&[][..], |known| &known.inlined);
        let names: Vec<(&str, Option<(&str, u32)>)> = match inlined {
            [] => {
                let procedure = known.and_then(|known| known.procedure.as_ref());
                let name = procedure.map_or("[no symbol]", |procedure| &*procedure.name);
                vec![(name, None)]
            }
            calls => {
                let line = |call: &'a SourceFrame| Some((call.file.as_deref()?, call.line?));
                let calls = calls.iter().rev();
                calls.map(|call| (&*call.function, line(call))).collect()
            }
        };
        let mut methods = Vec::with_capacity(names.len());
        for (name, line) in names {
            let method = self.builder.method(name, module)?;
            let function = || (name.to_owned(), module.to_string());
            self.functions.entry(method).or_insert_with(function);
            let role = FrameRole::of_function(name, module);
            methods.push(PlacedMethod { method, role, line });
        }
        self.methods.insert(location, methods.clone());
        Ok(methods)
    }
}

/// Returns the stacks whose waits timers end, and hardly anything else except the begin and end of
/// the recording. Signals, such as the end of a child, may interrupt them.
fn timed_waits(recording: &Recording, table: &SymbolTable) -> FxHashSet<StackId> {
    let mut waits: FxHashMap<StackId, TimedWaits> = FxHashMap::default();
    let mut wakers: FxHashMap<StackId, Option<WakingKind>> = FxHashMap::default();
    let mut waking_kind = |stack: StackId| {
        *wakers.entry(stack).or_insert_with(|| {
            let locations = recording.stacks.locations(stack);
            let procedures = locations.filter_map(|at| table.procedure(at));
            let names: Vec<&str> = procedures.map(|procedure| &*procedure.name).collect();
            WakingKind::of_waker(&names)
        })
    };
    for sample in &recording.samples {
        if recording.event(sample.event).name != "off-cpu" {
            continue;
        }
        let waker = sample.waker.and_then(|waker| waker.stack);
        let waits = waits.entry(sample.stack).or_default();
        waits.all += sample.weight;
        match waker.and_then(&mut waking_kind) {
            Some(WakingKind::Timer) => waits.timed += sample.weight,
            Some(WakingKind::Signal) => waits.signalled += sample.weight,
            None => {}
        }
    }
    let timed = waits.into_iter().filter(|(_, waits)| waits.are_sleeps());
    timed.map(|(stack, _)| stack).collect()
}

/// Waits at one place, in nanoseconds.
#[derive(Default)]
struct TimedWaits {
    all: u64,
    /// Waits ended by timers.
    timed: u64,
    /// Waits ended by signals.
    signalled: u64,
}

impl TimedWaits {
    fn are_sleeps(&self) -> bool {
        let [all, timed, signalled] = [self.all, self.timed, self.signalled].map(|ns| ns as f64);
        timed >= TIMED_AT_LEAST * all && timed > 0.0 && timed + signalled >= TIMED * all
    }
}

/// Returns the waiting time of threads in CPU queues, by the scheduler's account; the largest
/// number without one.
fn accounted_waits(recording: &Recording) -> u64 {
    let accounted = recording.task_times.and_then(|times| times.waiting_ns);
    accounted.unwrap_or(u64::MAX)
}

/// Returns whether the CPU that a thread waited for was idle: thread 0 of a CPU is its idle thread.
fn is_of_idle_cpu(sample: &Sample) -> bool {
    sample.waker.is_none_or(|had| had.tid == 0)
}

/// Returns whether threads usually end such waits. Interrupts of devices and timers end the others.
fn is_ended_by_threads(kind: TimeKind) -> bool {
    use TimeKind::{Barriers, Locks, Network, OtherWaits};
    matches!(kind, Locks | Barriers | Network | OtherWaits)
}

/// Returns the nanoseconds for each sample of the first event: by the kernel's account, else by the
/// event's rate.
pub fn each_sample(recording: &Recording) -> f64 {
    let Some(event) = recording.events.first() else {
        return 0.0;
    };
    if event.unit == Unit::Nanoseconds {
        return 1.0;
    }
    let first = recording.samples.iter().filter(|s| s.event.0 == 0);
    let weight: u64 = first.map(|sample| sample.weight).sum();
    match (recording.task_times, event.frequency) {
        (Some(times), _) if weight > 0 => times.cpu_ns as f64 / weight as f64,
        (_, Some(rate)) if rate > 0.0 => 1e9 / rate / event.sample_weight(),
        _ => 1e6 / event.sample_weight(),
    }
}

/// Returns the one frame that stands for the kernel's part of a stack.
fn kernel_frame(kind: TimeKind, user: &[&str], kernel: &[&str]) -> Option<String> {
    let call = kernel
        .iter()
        .find_map(|name| SystemCallName::of_function(name));
    match (call, kind) {
        (Some(SystemCallName(call)), _) => Some(format!("{call}{KERNEL_CALL}")),
        // The caller is usually the C library's function of the system call's name.
        (None, TimeKind::SystemCalls) => {
            let asker = match user.first() {
                Some(name) if plain_name(name).starts_with("lll_") => "futex",
                Some(name) => plain_name(name),
                None => SystemCallName::of_kernel_part(kernel).map_or("unknown", |call| call.0),
            };
            Some(format!("{asker}{KERNEL_CALL}"))
        }
        (None, TimeKind::PageFaults | TimeKind::Swapping | TimeKind::Disk) => {
            Some(PAGE_FAULT.to_owned())
        }
        // A kernel thread has no caller to charge.
        (None, _) if user.is_empty() => kernel.last().map(|name| (*name).to_owned()),
        _ => None,
    }
}
