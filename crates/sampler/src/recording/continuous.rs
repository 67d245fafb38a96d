//! Samples the whole machine while its counts are stored (DCPI section 4).
//!
//! The kernel fills one of two buffers. A *drain* flips them, reads the full one without clearing
//! it, and returns a recording. The buffer is cleared only when that is stored. Whenever the
//! process dies, its unstored counts are still in the kernel. The number of the drain tells the
//! next process whether the buffer it finds was stored already.

use crate::bpf::kernel::{LoaderMemory, Setting, can_walk_by_tables};
use crate::bpf::layout::{Accounting, MAX_EVENTS};
use crate::bpf::pins::{self, LeftBehind};
use crate::bpf::tables::Tables;
use crate::capabilities::{Question, check_first_pid_namespace, check_process_ids};
use crate::clock::{monotonic_ns, unix_ns};
use crate::events::cost::rate_within;
use crate::events::jitter::Jitter;
use crate::events::perf;
use crate::host::{online_cpus, read_host};
use crate::options::Rate;
use crate::processes::startup_files::startup_files;
use crate::processes::unreadable::FindNames;
use crate::recording::collection::Collection;
use crate::recording::counted_buffer::{check_accounts, count_samples};
use crate::recording::finish::{self, NameSources};
use crate::recording::kernel_source::KernelSource;
use crate::{Error, EventSpec};
use profile::{CallGraph, Collector, Event, Recording, StackWalks, Target, Unit};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use symbols::KernelSymbols;

/// Longest wait for the descriptions of functions on an earlier collector's stacks, and time
/// between two checks.
const LONGEST_MEETING: Duration = Duration::from_secs(3);
const TICK: Duration = Duration::from_millis(100);

/// Settings of the continuous collector: places of the whole machine, events of any kind.
const SETTING: Setting = Setting {
    only_targets: false,
    stacks: false,
    tables: false,
    per_process: false,
    per_thread: false,
    off_cpu: false,
    tracepoints: true,
    off_events: [0, 0],
    lasting: true,
};

/// The same settings, with stacks.
const STACKS_SETTING: Setting = Setting {
    stacks: true,
    tables: true,
    ..SETTING
};

/// Number of drains between two searches for images that are no longer mapped.
const FORGET_EVERY: u32 = 8;

/// Number of ended processes that are remembered, a kilobyte each, before an early drain lets them
/// be forgotten.
const ENDED_MOST: usize = 3000;

/// Fewer samples than this in a drain say little about the cost of one.
const FEW_SAMPLES: u64 = 100;

/// A jump of the clock that is reported, in nanoseconds.
const CLOCK_JUMP_NS: i64 = 1_000_000_000;

/// Options of a continuous collection.
pub struct ContinuousOptions {
    /// The events; none means cycles, or `cpu-clock` where there are no cycles.
    pub events: Vec<EventSpec>,
    /// Rate of the events that are sampled at one.
    pub rate: Rate,
    /// The longest time between two drains.
    pub interval: Duration,
    /// Time for which a pinned collector goes on sampling after the last [tick](Continuous::tick).
    pub outlive: Duration,
    /// A directory in the BPF file system where the collector is pinned, if it can be.
    pub pins: Option<PathBuf>,
    /// Options of call stacks; `None`: places alone.
    pub stacks: Option<StackOptions>,
    /// Finds names that cannot be found later, perhaps in a child process:
    /// [`find_names`](crate::find_names) may take much memory.
    pub find_names: Box<FindNames>,
}

/// Options of call stacks walked by unwind tables in the kernel.
pub struct StackOptions {
    /// Maximum number of bytes of unwind tables in the kernel.
    pub table_memory: usize,
    /// Directory on disk for the tables.
    pub table_directory: Option<PathBuf>,
}

/// Result of a tick: whether a drain is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainDue {
    /// No drain is due.
    NotYet,
    /// The interval has passed.
    Interval,
    /// The tables are filling up.
    Room,
}

/// Counts since the last drain.
pub struct Drain {
    /// Number of the drain, from 0.
    pub number: u32,
    /// Counts of the drain. Procedures of the kernel are not named yet: see [`crate::name_kernel`].
    pub recording: Recording,
}

/// A running collector.
pub struct Continuous<'memory> {
    source: KernelSource<'memory>,
    collection: Collection,
    options: ContinuousOptions,
    layout: Option<KernelSymbols>,
    drained_unix_ns: u64,
    drained_ns: u64,
    /// True if a buffer was read and not cleared yet.
    unstored: bool,
    sample_cost_ns: u64,
    /// Cost of a sample beside the time in the program, in nanoseconds.
    interrupt_cost_ns: u64,
    /// Outcomes of the walks up to the last drain.
    walks: StackWalks,
    /// Reason that requested stacks are missing.
    without_stacks: Option<&'static str>,
    frequency: u64,
    pinned: Result<(), String>,
    drains: u32,
    /// True if without ticks the kernel can end the events by itself, not only their counting.
    can_cease: bool,
    /// Time without samples for lack of ticks, in nanoseconds: since the last drain, and in total.
    unsampled_ns: (u64, u64),
    /// Sampled CPUs, and the time for which the event of each was enabled.
    cpus: (Vec<i32>, Vec<u64>),
}

/// Loads a collector and passes it to `body`, after which it ends, unless it is left running.
///
/// # Errors
/// Any failure to load it.
pub fn sample_continuously<T>(
    options: ContinuousOptions,
    body: impl FnOnce(&mut Continuous<'_>) -> T,
) -> Result<T, Error> {
    let mut memory = MaybeUninit::uninit();
    let mut continuous = Continuous::prepare(options, &mut memory)?;
    Ok(body(&mut continuous))
}

impl<'memory> Continuous<'memory> {
    fn prepare(
        options: ContinuousOptions,
        memory: &'memory mut LoaderMemory,
    ) -> Result<Self, Error> {
        check_process_ids()?;
        check_first_pid_namespace()?;
        let specs = crate::recording::recording_session::choose_events(&options.events)?;
        if specs.len() > MAX_EVENTS {
            return Err(Error::TooManyEvents {
                asked: specs.len(),
                limit: MAX_EVENTS,
            });
        }
        if let Some(spec) = specs.iter().find(|spec| spec.branches) {
            return Err(Error::EventSyntax {
                text: spec.name.clone(),
                reason: "branch records do not come while samples are counted in the kernel; use vitalfew record --branches".into(),
            });
        }
        if let Err(gap) = crate::capabilities::probe_machine().kernel_counts() {
            return Err(gap.refuse(Question::WholeMachine));
        }
        let cpus = online_cpus();
        let jitter = Some(Jitter::new(unix_ns()));
        let stacks = options.stacks.as_ref().filter(|_| can_walk_by_tables());
        let setting = match stacks {
            Some(_) => STACKS_SETTING,
            None => SETTING,
        };
        let without_stacks = (options.stacks.is_some() && stacks.is_none())
            .then_some("to walk stacks by unwind tables in the kernel takes Linux 6.1");
        let mut source = KernelSource::open(memory, setting, &cpus, jitter)?;
        let mut collection = Collection::new(specs.len());
        collection.images.spare_mounts();
        source.watch_processes()?;
        collection.maps.scan_all(&mut collection.images);
        if let Some(stacks) = stacks {
            // vitalfew's own files first: the cost of a sample is measured on this process.
            let directory = stacks.table_directory.as_deref();
            let own = startup_files("/proc/self/exe");
            source.make_lasting_tables(stacks.table_memory, directory, &own)?;
        }
        let timed = specs.iter().find(|spec| spec.is_timed());
        let sample_cost_ns = timed.map_or(Ok(0), |spec| source.sample_cost(spec))?;
        let most = perf::max_sample_rate().max(1);
        let frequency = match options.rate {
            Rate::Frequency(frequency) => frequency.min(most),
            Rate::Overhead(percent) => {
                rate_within(percent, sample_cost_ns, (1, Rate::MOST.min(most)))
            }
        };
        let events: Vec<(EventSpec, u64)> = specs
            .iter()
            .map(|spec| (spec.clone(), spec.period_at(frequency)))
            .collect();
        let can_cease = options.pins.is_some() && source.limits_spare_handled().unwrap_or(false);
        // The loader lets events run as soon as programs are attached.
        source.hold_programs(true);
        source.open_events(&events, None, &cpus)?;
        // Before pinning: from then on it may have to survive this process.
        source.expect_until(
            monotonic_ns() + options.outlive.as_nanos() as u64,
            can_cease,
        )?;
        let pinned = match &options.pins {
            None => Err("there is no BPF file system".to_owned()),
            Some(directory) => source.pin_collector(directory).map_err(|error| {
                let _ = pins::remove_pins(directory);
                error.to_string()
            }),
        };
        let mut collector = Self {
            interrupt_cost_ns: sample_cost_ns.saturating_sub(source.probed_program_ns()),
            walks: source.walk_counts().unwrap_or_default(),
            without_stacks,
            source,
            collection,
            options,
            layout: KernelSymbols::read_layout().ok(),
            drained_unix_ns: unix_ns(),
            drained_ns: monotonic_ns(),
            unstored: false,
            sample_cost_ns,
            frequency,
            pinned,
            drains: 0,
            can_cease,
            unsampled_ns: (0, 0),
            cpus: (cpus, Vec::new()),
        };
        collector.describe_events()?;
        Ok(collector)
    }

    /// Starts the thread that makes unwind tables of the files on stacks, with the privileges of
    /// this thread.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn start_tables(&mut self) -> Result<(), Error> {
        self.source.start_tables()
    }

    /// Returns the CPU time spent on unwind tables since the start, in nanoseconds.
    pub fn tables_cpu_ns(&self) -> u64 {
        self.source.tables_cpu_ns()
    }

    /// Returns why requested call stacks are not recorded.
    pub fn why_without_stacks(&self) -> Option<&'static str> {
        self.without_stacks
    }

    /// Returns the outcomes of stack walks since the start; `None` if there are no stacks.
    pub fn stack_walks(&self) -> Option<StackWalks> {
        self.source.walk_counts()
    }

    fn call_graph(&self) -> CallGraph {
        if self.source.walks_by_tables() {
            CallGraph::Tables
        } else {
            CallGraph::None
        }
    }

    /// Stores a description of the events beside the pinned tables, for a process that takes them
    /// over.
    fn describe_events(&mut self) -> Result<(), Error> {
        let described = self.described_events();
        match (&self.options.pins, &self.pinned) {
            (Some(directory), Ok(())) => pins::describe_events(directory, &described),
            _ => Ok(()),
        }
    }

    /// Returns whether without ticks the interrupts end too, not only the counting.
    pub fn can_cease(&self) -> bool {
        self.can_cease
    }

    /// Returns the time without samples for lack of ticks, in nanoseconds.
    pub fn unsampled_ns(&self) -> u64 {
        self.unsampled_ns.1
    }

    /// Returns `Ok` if the collector would outlive this process, otherwise the reason that it would
    /// not.
    pub fn pinned_or_reason(&self) -> Result<(), &str> {
        self.pinned.as_ref().copied().map_err(String::as_str)
    }

    /// Returns the cost of a sample, in nanoseconds: as measured before the start, or with stacks
    /// as in the last drain.
    pub fn sample_cost_ns(&self) -> u64 {
        self.sample_cost_ns
    }

    /// Returns the samples a second on each CPU, of events that have a rate.
    pub fn frequency(&self) -> u64 {
        self.frequency
    }

    /// Returns the names of the events.
    pub fn event_names(&self) -> impl Iterator<Item = &str> {
        self.source
            .events
            .iter()
            .map(|event| event.spec.name.as_str())
    }

    /// Returns the numbers of remembered images and processes.
    pub fn remembered_counts(&self) -> (usize, usize) {
        (self.collection.images.len(), self.collection.maps.len())
    }

    /// Starts or resumes counting.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn enable(&mut self) -> Result<(), Error> {
        if !self.unstored && self.drains == 0 {
            (self.drained_unix_ns, self.drained_ns) = (unix_ns(), monotonic_ns());
        }
        self.source.hold_programs(false);
        self.source.enable()
    }

    /// Stops counting; the counts stay in the kernel.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn disable(&mut self) -> Result<(), Error> {
        self.cpus.1.clear();
        self.source.hold_programs(true);
        self.source.disable()
    }

    /// Changes the rate of events that have one, from the next period on.
    ///
    /// # Errors
    /// [`Error::System`], [`Error::Bpf`].
    pub fn set_frequency(&mut self, frequency: u64) -> Result<(), Error> {
        self.frequency = frequency.max(1);
        for event in self.source.events.iter_mut().filter(|e| e.spec.is_timed()) {
            event.period = event.spec.period_at(self.frequency);
        }
        self.describe_events()
    }

    /// Returns why a new collector is needed, if one is: labels run out, or the CPUs changed. An
    /// event ends with its CPU and does not come back with it, not even after a suspend. Called
    /// every few seconds, while the collector counts.
    pub fn reason_to_restart(&mut self) -> Option<String> {
        if self.source.labels_run_out() {
            return Some("more programs were on stacks than one collector tells apart".to_owned());
        }
        let times = self.source.enabled_times();
        let before = std::mem::replace(&mut self.cpus.1, times);
        changed_cpus(&self.cpus.0, &online_cpus(), &before, &self.cpus.1)
    }

    /// Waits for `timeout`, or until records of processes have to be read.
    pub fn wait_for_records(&self, timeout: Duration) {
        let descriptors: Vec<_> = self.source.descriptors().collect();
        crate::recording::recording_session::poll_descriptors(&descriptors, timeout);
    }

    /// Sets new random periods, reads records of processes, and moves the dead-man's switch. Called
    /// several times a second. Returns whether it is time to [drain](Self::drain).
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn tick(&mut self) -> Result<DrainDue, Error> {
        self.hold_switch()?;
        self.source.set_periods();
        self.source.read_bookkeeping(&mut self.collection);
        let age = monotonic_ns().saturating_sub(self.drained_ns);
        let events = self.source.events.len();
        let full = self.collection.maps.ended_count() >= ENDED_MOST
            || self.source.is_filling_up(events)?;
        Ok(match age >= self.options.interval.as_nanos() as u64 {
            _ if full => DrainDue::Room,
            true => DrainDue::Interval,
            false => DrainDue::NotYet,
        })
    }

    /// Moves the dead-man's switch, and starts again if it had expired.
    fn hold_switch(&mut self) -> Result<(), Error> {
        let now = monotonic_ns();
        let until = now + self.options.outlive.as_nanos() as u64;
        self.source.expect_until(until, false)?;
        let Some(ceased_ns) = self.source.take_ceased() else {
            return Ok(());
        };
        let silence = now.saturating_sub(ceased_ns);
        self.unsampled_ns.0 += silence;
        self.unsampled_ns.1 += silence;
        // Events that were disabled look like those of CPUs that were offline.
        self.cpus.1.clear();
        self.source.expect_until(until, self.can_cease)
    }

    /// Reads the counts since the last drain. The kernel drops them only by
    /// [`forget_stored`](Self::forget_stored), which must come before the next drain.
    ///
    /// # Errors
    /// [`Error::System`], [`Error::Bpf`].
    pub fn drain(&mut self) -> Result<Drain, Error> {
        let mut until = self.drained_ns;
        if !self.unstored {
            until = monotonic_ns();
            self.source.flip_buffers();
            self.unstored = true;
        }
        let number = self.source.fill_number().wrapping_sub(1);
        let mut recording = self.empty_since_drain();
        // After the flip: each mapping that precedes a sample in the buffer has its record.
        self.source.read_bookkeeping(&mut self.collection);
        let labelled = self.source.take_labelled();
        self.collection.labelled.extend(labelled);
        let tables = self.source.buffer_tables(number & 1);
        let accounts = read_buffer(&mut self.collection, &tables, self.source.events.len())?;
        let taken: u64 = accounts.iter().map(|account| account.taken).sum();
        let spent_ns: u64 = accounts.iter().map(|account| account.spent_ns).sum();
        if taken >= FEW_SAMPLES && spent_ns > 0 {
            self.sample_cost_ns = self.interrupt_cost_ns + spent_ns / taken;
        }
        for (number, account) in accounts.iter().enumerate() {
            let scale = self.source.multiplex_scale(number);
            recording
                .events
                .push(drained_event(&self.source.events[number], account, scale));
        }
        self.move_samples(&mut recording);
        self.note_walks(&mut recording);
        if self.collection.functions.end_drain() {
            self.source.tell_functions_anew()?;
        }
        // All samples of processes that had ended by the flip were processed.
        self.collection.maps.forget_ended(until);
        let used = self.collection.maps.used_images();
        self.collection.images.release_but(&used);
        self.drains += 1;
        if self.drains.is_multiple_of(FORGET_EVERY) {
            self.collection.images.forget_unused(&used);
            self.source.remember_tables();
        }
        Ok(Drain { number, recording })
    }

    /// Returns a recording of the time since the last drain, without its samples.
    fn empty_since_drain(&mut self) -> Recording {
        let (unix, now) = (unix_ns(), monotonic_ns());
        let passed = now.saturating_sub(self.drained_ns);
        let mut recording = empty_recording(self.call_graph());
        recording.duration_ns = passed;
        recording.start_unix_ns = unix.saturating_sub(passed);
        let expected = self.drained_unix_ns.saturating_add(passed);
        let jump = unix as i64 - expected as i64;
        if jump.abs() > CLOCK_JUMP_NS {
            let way = if jump < 0 { "back" } else { "forward" };
            let seconds = jump.abs() as f64 / 1e9;
            let warning =
                format!("the clock was set {way} by {seconds:.1} s while this was recorded");
            recording.warnings.push(warning);
        }
        (self.drained_unix_ns, self.drained_ns) = (unix, now);
        let unsampled_ns = std::mem::take(&mut self.unsampled_ns.0);
        if unsampled_ns > 0 {
            recording.warnings.push(format!(
                "nothing was sampled for {:.1} s, because the daemon did not run for longer than --outlive",
                unsampled_ns as f64 / 1e9
            ));
        }
        recording
    }

    /// Adds the outcomes of stack walks since the last drain.
    fn note_walks(&mut self, recording: &mut Recording) {
        if let Some(walks) = self.source.walk_counts() {
            recording.set_walks(Some(walks.since(self.walks)));
            let notes = self.source.walk_notes(&recording.images);
            recording.warnings.extend(notes);
            self.walks = walks;
        }
    }

    fn move_samples(&mut self, recording: &mut Recording) {
        let names = NameSources {
            kernel: self.layout.take(),
            directory: None,
            find_names: &self.options.find_names,
        };
        self.layout = finish::move_samples(&mut self.collection, recording, names);
    }

    /// Clears the buffer of the last drain, which is stored.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn forget_stored(&mut self) -> Result<(), Error> {
        if self.unstored {
            self.source
                .buffer_tables(self.source.fill_number().wrapping_sub(1) & 1)
                .clear()?;
            self.unstored = false;
        }
        Ok(())
    }

    /// Waits a little for the names of script functions on the stacks of an earlier collector: only
    /// its reader knew them. Functions that still run are described again, under the same numbers.
    fn meet_functions(&mut self, left: &LeftBehind) -> Result<(), Error> {
        if !self.source.walks_by_tables() {
            return Ok(());
        }
        let functions = left.functions_on_stacks()?;
        self.collection
            .functions
            .add_objects(left.unread_functions()?);
        let begin = Instant::now();
        while begin.elapsed() < LONGEST_MEETING
            && !self.collection.functions.knows_all(functions.iter())
        {
            self.wait_for_records(TICK);
            self.tick()?;
        }
        Ok(())
    }

    /// Returns the unstored counts of an earlier collector. `is_stored` tells by a drain's number
    /// whether it was stored. The collector has to be [stopped](LeftBehind::stop_programs);
    /// `since_unix_ns` is its last sign of life.
    ///
    /// # Errors
    /// [`Error::System`], [`Error::Bpf`].
    pub fn take_over(
        &mut self,
        left: &LeftBehind,
        since_unix_ns: u64,
        is_stored: impl Fn(u32) -> bool,
    ) -> Result<Vec<Drain>, Error> {
        let events = left.events()?;
        let fill = left.fill_number()?;
        let ceased_ago_ns = left.ceased_ago_ns()?;
        let until = unix_ns().saturating_sub(ceased_ago_ns.unwrap_or(0));
        self.meet_functions(left)?;
        let mut drains = Vec::new();
        // The older one first: it was being stored when the daemon died, while the newer one was
        // being filled.
        for number in [fill.wrapping_sub(1), fill] {
            let tables = left.buffer_tables(number & 1)?;
            let taken: u64 = tables
                .sum_accounts(events.len())?
                .iter()
                .map(|a| a.taken)
                .sum();
            if taken == 0 || is_stored(number) {
                continue;
            }
            let mut recording = empty_recording(if left.has_stacks() {
                CallGraph::Tables
            } else {
                CallGraph::None
            });
            recording.start_unix_ns = since_unix_ns.min(until);
            recording.duration_ns = until - recording.start_unix_ns;
            // Its labels of images are not this collector's.
            let labels = std::mem::replace(&mut self.collection.labelled, left.labelled_files());
            let result = read_buffer(&mut self.collection, &tables, events.len());
            self.collection.labelled = labels;
            for (event, account) in events.iter().zip(result?) {
                recording.events.push(Event {
                    taken: account.taken,
                    stored: account.stored,
                    dropped: account.dropped,
                    lost: 0,
                    ..event.clone()
                });
            }
            recording.warnings.push(
                "a part was counted while no daemon ran: programs that only ran then are named by their inode".into(),
            );
            if let Some(ago_ns) = ceased_ago_ns {
                recording.warnings.push(format!(
                    "the collector stopped by itself {:.0} s before a daemon came back: nothing was sampled in between",
                    ago_ns as f64 / 1e9
                ));
            }
            self.move_samples(&mut recording);
            drains.push(Drain { number, recording });
        }
        Ok(drains)
    }

    /// Describes the events as a recording does, for a collector that takes over.
    fn described_events(&self) -> Vec<Event> {
        let open = self.source.events.iter();
        open.map(|open| drained_event(open, &Accounting::default(), 1.0))
            .collect()
    }

    /// Returns whether any sample was counted since the last drain.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn is_counting(&self) -> Result<bool, Error> {
        let tables = self.source.buffer_tables(self.source.fill_number() & 1);
        let accounts = tables.sum_accounts(self.source.events.len())?;
        Ok(accounts.iter().any(|account| account.taken > 0))
    }

    /// Lets a pinned collector run on after this value is dropped.
    pub fn leave_running(&mut self) {
        self.source.leave_running();
    }

    /// Ends the collector and removes its pins.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn end_collector(&mut self) -> Result<(), Error> {
        self.source.detach_programs();
        match &self.options.pins {
            Some(directory) => {
                pins::remove_pins(directory)?;
                // Other collectors may be pinned beside it.
                let _ = directory.parent().map(std::fs::remove_dir);
                Ok(())
            }
            None => Ok(()),
        }
    }
}

fn changed_cpus(sampled: &[i32], online: &[i32], before: &[u64], after: &[u64]) -> Option<String> {
    if online != sampled {
        let list = |cpus: &[i32]| {
            let cpus: Vec<String> = cpus.iter().map(i32::to_string).collect();
            cpus.join(", ")
        };
        let (were, are) = (list(sampled), list(online));
        return Some(format!("CPUs {were} were sampled, now {are} are online"));
    }
    let mut stopped = sampled.iter().zip(before.iter().zip(after));
    let (cpu, _) = stopped.find(|(_, (before, after))| after <= before)?;
    Some(format!("CPU {cpu} was offline for a while"))
}

fn empty_recording(call_graph: CallGraph) -> Recording {
    Recording::new(read_host(), Target::Machine, Collector::Bpf, call_graph)
}

fn drained_event(
    open: &crate::recording::kernel_source::Open,
    account: &Accounting,
    multiplex_scale: f64,
) -> Event {
    let timed = open.spec.is_timed();
    let rate = open.spec.period_at(1).checked_div(open.period).unwrap_or(0);
    Event {
        name: open.spec.name.clone(),
        unit: Unit::Samples,
        period: open.period,
        frequency: timed.then_some(rate as f64),
        mixed_periods: false,
        multiplex_scale,
        taken: account.taken,
        stored: account.stored,
        dropped: account.dropped,
        lost: 0,
    }
}

/// Adds the samples of a buffer to the collection; returns the accounts of the events.
fn read_buffer(
    collection: &mut Collection,
    tables: &Tables<'_>,
    events: usize,
) -> Result<Vec<Accounting>, Error> {
    let setting = if tables.stacks.is_some() {
        STACKS_SETTING
    } else {
        SETTING
    };
    let (_, stored) = count_samples(collection, tables, setting)?;
    check_accounts(collection, tables, events, &stored)
}

/// Returns the collectors pinned below this directory with their names, oldest first.
///
/// # Errors
/// [`Error::System`].
pub fn left_behind(pins: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let entries = match std::fs::read_dir(pins) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries,
    };
    let failed = |source| Error::System {
        what: format!("reading {}", pins.display()),
        source,
    };
    let mut found = Vec::new();
    for entry in entries.map_err(failed)? {
        let entry = entry.map_err(failed)?;
        found.push((
            entry.file_name().to_string_lossy().into_owned(),
            entry.path(),
        ));
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_that_come_go_or_were_away_are_noticed() {
        let changed = |online: &[i32], before: &[u64], after: &[u64]| {
            changed_cpus(&[0, 1], online, before, after).unwrap_or_default()
        };
        assert_eq!(changed(&[0, 1], &[], &[5, 5]), "");
        assert_eq!(changed(&[0, 1], &[5, 5], &[9, 9]), "");
        let away = "CPU 1 was offline for a while";
        assert_eq!(changed(&[0, 1], &[5, 5], &[9, 5]), away);
        assert_eq!(changed(&[0, 1], &[5, 5], &[9, 0]), away);
        let more = changed(&[0, 1, 2], &[5, 5], &[9, 9]);
        assert_eq!(more, "CPUs 0, 1 were sampled, now 0, 1, 2 are online");
        assert!(changed(&[0], &[5, 5], &[9, 0]).contains("now 0 are"));
    }
}
