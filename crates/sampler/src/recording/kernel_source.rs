//! Recording by counting in the kernel.

use crate::bpf::go::LabelRecords;
use crate::bpf::kernel::{self, Kernel, LoaderMemory, Setting};
use crate::bpf::layout::{Accounting, OffKey, StackKey, Waiting};
use crate::bpf::python::CodeRecords;
use crate::bpf::tables::Tables;
use crate::clock::{monotonic_ns, own_cpu_ns};
use crate::events::cost;
use crate::events::jitter::Jitter;
use crate::events::perf::{self, Scope};
use crate::events::rings::{self, Mappings, Rings};
use crate::processes::jvm::NamedJvms;
use crate::recording::collection::Collection;
use crate::recording::counted_buffer::{check_accounts, count_samples};
use crate::recording::script_functions::FUNCTIONS_LOST;
use crate::recording::tally::{Amount, SampleKey, ThreadKey};
use crate::unwinding::{TableSettings, UnfinishedTables, Unwinding, target_name};
use crate::{Error, EventSpec, Options, TargetSpec};
use profile::{EventId, FileIdentity, Image, ImageOffset, Location, StackId, StackWalks, Waker};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::os::fd::{OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time between two drains; tables that are two fifths full are drained earlier.
const LONGEST_FILL_NS: u64 = 15_000_000_000;

/// Longest wait of a command for the tables of files that every program runs.
const LONGEST_PREPARATION: Duration = Duration::from_millis(500);

/// An event that is being recorded.
pub(crate) struct Open {
    pub spec: EventSpec,
    pub period: u64,
    /// One for each CPU; none for a tracepoint.
    fds: Vec<OwnedFd>,
}

/// The collector in the kernel, its reader, and the records about processes.
pub(crate) struct KernelSource<'memory> {
    kernel: Kernel<'memory>,
    bookkeeping: Rings,
    pub events: Vec<Open>,
    setting: Setting,
    jitter: Option<Jitter>,
    /// The maker of unwind tables, if stacks are walked by them.
    unwinding: Option<Unwinding>,
    /// Reader of the records of code objects.
    codes: Option<CodeRecords>,
    /// Reader of the records of goroutine labels.
    labels: Option<LabelRecords>,
    /// Stacks by their number, and the drain in which they were last seen.
    frames: FxHashMap<u64, (Vec<u64>, u64)>,
    drains: u64,
    drained_at: u64,
    /// Time in the programs of the sample whose cost was measured, in nanoseconds.
    probed_program_ns: u64,
}

impl<'memory> KernelSource<'memory> {
    /// Loads the collector and opens the records about processes, without counting yet.
    pub fn open(
        memory: &'memory mut LoaderMemory,
        setting: Setting,
        cpus: &[i32],
        jitter: Option<Jitter>,
    ) -> Result<Self, Error> {
        let kernel = Kernel::load(memory, setting)?;
        let mut bookkeeping = Rings::new([256; 2]);
        let like = rings::sampling(&EventSpec::cpu_clock(), 1);
        for &cpu in cpus {
            for mappings in [Mappings::ByInode, Mappings::ByBuildId] {
                let attr = rings::bookkeeping(&like, mappings);
                if let Err(source) = bookkeeping.open(&attr, Scope { pid: -1, cpu }) {
                    // Before Linux 5.12 records have no build-ids, which are then read from the
                    // files.
                    if mappings == Mappings::ByInode {
                        return Err(crate::events::advice::event_refused(
                            &EventSpec::cpu_clock(),
                            source,
                        ));
                    }
                }
            }
        }
        Ok(Self {
            kernel,
            bookkeeping,
            events: Vec::new(),
            setting,
            jitter,
            unwinding: None,
            codes: None,
            labels: None,
            frames: FxHashMap::default(),
            drains: 0,
            drained_at: monotonic_ns(),
            probed_program_ns: 0,
        })
    }

    /// Starts making unwind tables: of the vDSO and of `files` now, of others when they are met.
    pub fn make_tables(&mut self, options: &Options, files: &[PathBuf]) -> Result<(), Error> {
        let mut unwinding = self.prepare_unwinding(TableSettings {
            limit: options.table_memory,
            directory: options.table_directory.as_deref(),
            target: target_name(&options.target),
            lasting: false,
        })?;
        unwinding.start_thread()?;
        unwinding.prepare_tables(files, LONGEST_PREPARATION);
        self.unwinding = Some(unwinding);
        Ok(())
    }

    /// As [`make_tables`](Self::make_tables), for a collector that may outlive this process, in
    /// this thread: only of the vDSO and of `files`, until [`start_tables`](Self::start_tables).
    pub fn make_lasting_tables(
        &mut self,
        memory: usize,
        directory: Option<&Path>,
        files: &[PathBuf],
    ) -> Result<(), Error> {
        let mut unwinding = self.prepare_unwinding(TableSettings {
            limit: memory,
            directory,
            target: target_name(&TargetSpec::Machine),
            lasting: true,
        })?;
        unwinding.make_tables_here(files);
        self.unwinding = Some(unwinding);
        Ok(())
    }

    fn prepare_unwinding(&mut self, settings: TableSettings<'_>) -> Result<Unwinding, Error> {
        let maps = self.kernel.walk_maps()?;
        let jvms = NamedJvms::default();
        self.codes = Some(self.kernel.code_records(jvms.clone())?);
        self.labels = Some(self.kernel.label_records()?);
        Unwinding::new(maps, jvms, settings)
    }

    /// Starts a thread that makes tables of images that are met, with this thread's current
    /// privileges.
    pub fn start_tables(&mut self) -> Result<(), Error> {
        if let Some(unwinding) = &mut self.unwinding {
            unwinding.start_thread()?;
            unwinding.prepare_recent();
        }
        Ok(())
    }

    /// Stores which tables were used, for the next recording.
    pub fn remember_tables(&mut self) {
        if let Some(unwinding) = &mut self.unwinding {
            unwinding.remember_used();
        }
    }

    /// Returns whether labels for images have nearly run out.
    pub fn labels_run_out(&self) -> bool {
        let unwinding = self.unwinding.as_ref();
        unwinding.is_some_and(Unwinding::labels_run_out)
    }

    /// Returns the outcomes of walks so far, if stacks are walked by tables.
    pub fn walk_counts(&self) -> Option<StackWalks> {
        self.unwinding.as_ref().map(Unwinding::walk_counts)
    }

    /// Makes the programs describe each function of another language again.
    pub fn tell_functions_anew(&self) -> Result<(), Error> {
        self.kernel.tell_functions_anew()
    }

    /// Returns the tables that will not be finished, known after this value is dropped.
    pub fn unfinished_tables(&self) -> Option<UnfinishedTables> {
        self.unwinding.as_ref().map(Unwinding::unfinished_tables)
    }

    /// Returns the CPU time spent on unwind tables, in nanoseconds.
    pub fn tables_cpu_ns(&self) -> u64 {
        self.unwinding.as_ref().map_or(0, Unwinding::cpu_ns)
    }

    /// Returns the files of labels assigned since the last call.
    pub fn take_labelled(&mut self) -> Vec<FileIdentity> {
        let unwinding = self.unwinding.as_mut();
        unwinding.map_or_else(Vec::new, Unwinding::take_labelled)
    }

    /// Returns whether a process is sampled.
    pub fn is_target(&self, pid: u32) -> bool {
        !self.setting.only_targets || self.kernel.is_target(pid)
    }

    /// Returns whether user stacks are walked by unwind tables.
    pub fn walks_by_tables(&self) -> bool {
        self.unwinding.is_some()
    }

    /// Returns whether the names of a JVM's methods are read from its memory.
    pub fn names_methods(&self, pid: u32) -> bool {
        let unwinding = self.unwinding.as_ref();
        unwinding.is_some_and(|unwinding| unwinding.names_methods(pid))
    }

    /// Returns notes on the stack walks, beside their outcomes; notes on images only for those with
    /// samples.
    pub fn walk_notes(&self, sampled: &[Image]) -> BTreeSet<String> {
        let Some(unwinding) = &self.unwinding else {
            return BTreeSet::new();
        };
        let mut notes = unwinding.notes(sampled);
        notes.extend(self.kernel.interpreter_notes());
        let codes = self.codes.as_ref();
        notes.extend(codes.and_then(CodeRecords::warn_of_unread));
        notes
    }

    /// Starts the records about processes.
    pub fn watch_processes(&mut self) -> Result<(), Error> {
        self.bookkeeping.enable()
    }

    /// Measures the cost of a sample to a CPU of this machine, in nanoseconds.
    pub fn sample_cost(&mut self, spec: &EventSpec) -> Result<u64, Error> {
        let own = std::process::id();
        if self.setting.only_targets {
            self.kernel.add_target(own, true)?;
        }
        let attr = perf::event_attributes(spec, spec.period_at(cost::PROBE_HERTZ));
        let cost = cost::measure_gap(spec, &attr, |fd| self.kernel.attach_event(fd, 0, false))?;
        self.kernel.detach();
        if self.setting.only_targets {
            self.kernel.remove_target(own);
        }
        // The samples of this process are dropped.
        let buffer = self.kernel.flip_buffers();
        let tables = self.kernel.buffer_tables(buffer);
        let accounts = tables.sum_accounts(1)?;
        self.probed_program_ns = accounts.first().map_or(0, |account| {
            account.spent_ns.checked_div(account.taken).unwrap_or(0)
        });
        tables.clear()?;
        Ok(cost)
    }

    /// Returns the time in the programs of the sample whose cost was measured, in nanoseconds; 0 if
    /// unknown.
    pub fn probed_program_ns(&self) -> u64 {
        self.probed_program_ns
    }

    /// Opens the events, disabled, and makes the process a target.
    pub fn open_events(
        &mut self,
        events: &[(EventSpec, u64)],
        target: Option<(u32, bool)>,
        cpus: &[i32],
    ) -> Result<(), Error> {
        if let Some((tgid, armed)) = target {
            self.kernel.add_target(tgid, armed)?;
        }
        for (number, (spec, period)) in events.iter().enumerate() {
            let start = match &mut self.jitter {
                Some(jitter) if spec.is_timed() => jitter.random_period(*period),
                _ => *period,
            };
            let number = number as u16;
            let fds = kernel::open_everywhere(&mut self.kernel, spec, number, start, cpus)?;
            self.events.push(Open {
                spec: spec.clone(),
                period: *period,
                fds,
            });
        }
        self.kernel.attach_tracing()
    }

    /// Starts counting.
    pub fn enable(&mut self) -> Result<(), Error> {
        self.drained_at = monotonic_ns();
        self.all_fds().try_for_each(perf::enable_event)
    }

    fn all_fds(&self) -> impl Iterator<Item = &OwnedFd> {
        self.events.iter().flat_map(|event| &event.fds)
    }

    /// Returns the descriptors to poll.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> + '_ {
        self.bookkeeping.descriptors()
    }

    /// Sets new periods, and drains if it is time. Called several times a second.
    pub fn tick(&mut self, collection: &mut Collection) -> Result<(), Error> {
        self.set_periods();
        // Times are as exact as drains are frequent.
        let due = collection.slices.is_some()
            || monotonic_ns().saturating_sub(self.drained_at) >= LONGEST_FILL_NS;
        if due || self.kernel.is_filling_up(collection.totals.len())? {
            self.drain_full(collection)
        } else {
            self.read_bookkeeping(collection);
            Ok(())
        }
    }

    /// Sets new random periods for the events that have a rate.
    pub fn set_periods(&mut self) {
        if let Some(jitter) = &mut self.jitter {
            for event in self.events.iter().filter(|event| event.spec.is_timed()) {
                jitter.set_periods(&event.fds, event.period);
            }
        }
    }

    /// Returns whether the tables should be drained soon.
    pub fn is_filling_up(&self, events: usize) -> Result<bool, Error> {
        self.kernel.is_filling_up(events)
    }

    /// Returns the number of samples in the tables that are being filled.
    pub fn undrained_samples(&self, events: usize) -> u64 {
        let accounts = self
            .kernel
            .buffer_tables(self.kernel.fill_number() & 1)
            .sum_accounts(events);
        let stored = |account: &Accounting| account.stored;
        accounts.map_or(0, |all| all.iter().map(stored).sum())
    }

    /// Switches the programs to the other buffer.
    pub fn flip_buffers(&mut self) {
        self.kernel.flip_buffers();
    }

    /// Stops the programs' counting, or resumes it.
    pub fn hold_programs(&mut self, stopped: bool) {
        self.kernel.hold_programs(stopped);
    }

    /// Returns the number of the current fill.
    pub fn fill_number(&self) -> u32 {
        self.kernel.fill_number()
    }

    /// Returns the tables of a buffer.
    pub fn buffer_tables(&self, buffer: u32) -> Tables<'_> {
        self.kernel.buffer_tables(buffer)
    }

    /// Pins the collector.
    pub fn pin_collector(&self, directory: &Path) -> Result<(), Error> {
        let unwinding = self.unwinding.as_ref();
        let labels = unwinding.and_then(Unwinding::image_labels);
        crate::bpf::pins::pin_collector(&self.kernel, labels, directory)
    }

    /// Lets the programs sample until this time (monotonic clock), unless it is moved. With `arm`,
    /// the events are enabled and end with the first sample after it.
    pub fn expect_until(&mut self, until_ns: u64, arm: bool) -> Result<(), Error> {
        self.kernel.expect_until(until_ns);
        if arm {
            self.all_fds().try_for_each(perf::allow_one_overflow)
        } else {
            Ok(())
        }
    }

    /// Returns when the programs stopped sampling because the time was over. `None` if they did not
    /// since the last call.
    pub fn take_ceased(&mut self) -> Option<u64> {
        self.kernel.take_ceased()
    }

    /// Returns whether the kernel lets an event run on, whatever its limit, while its program
    /// returns 0. Tested, because it depends on more than the release.
    pub fn limits_spare_handled(&mut self) -> Result<bool, Error> {
        let spec = EventSpec::cpu_clock();
        let attr = perf::event_attributes(&spec, spec.period_at(cost::PROBE_HERTZ));
        let own = Scope { pid: 0, cpu: -1 };
        let fd = perf::open_event(&attr, own)
            .map_err(|e| crate::events::advice::event_refused(&spec, e))?;
        self.kernel.attach_event(&fd, 0, true)?;
        perf::allow_one_overflow(&fd)?;
        let period_ns = 1_000_000_000 / cost::PROBE_HERTZ;
        // Spends some periods of CPU time, of which the event must have seen more than one.
        let begin = own_cpu_ns();
        while own_cpu_ns() - begin < 20 * period_ns {}
        let enabled_ns = perf::event_times(&fd).map_or(0, |(enabled, _)| enabled);
        self.kernel.detach();
        Ok(enabled_ns > 10 * period_ns)
    }

    /// Stops counting.
    pub fn disable(&self) -> Result<(), Error> {
        self.all_fds().try_for_each(perf::disable_event)
    }

    /// Takes the programs off the events.
    pub fn detach_programs(&mut self) {
        self.kernel.detach();
    }

    /// Leaves the programs on the events after this value is dropped, if a pin holds them.
    pub fn leave_running(&mut self) {
        self.kernel.leave_running();
    }

    /// Stops counting and adds the remaining counts.
    pub fn finish(&mut self, collection: &mut Collection) -> Result<(), Error> {
        self.all_fds().try_for_each(perf::disable_event)?;
        self.kernel.detach();
        if let Some(unwinding) = &self.unwinding {
            unwinding.end_walks();
        }
        let end = monotonic_ns();
        self.drain_full(collection)?; // the tables that were being filled
        let mut unfinished = Vec::new();
        self.kernel
            .each_waiting(|waiting| unfinished.push(*waiting));
        for waiting in unfinished {
            self.unfinished_wait(collection, &waiting, end);
            collection.bound_stacks();
        }
        if let Some(unwinding) = &mut self.unwinding {
            unwinding.remember_used();
        }
        self.bookkeeping.disable()
    }

    /// Returns how long the event of each CPU was enabled, in nanoseconds, if there is one for
    /// each; 0 if that is no longer readable.
    pub fn enabled_times(&self) -> Vec<u64> {
        let per_cpu = self.events.iter().find(|event| !event.fds.is_empty());
        let times = |fd| perf::event_times(fd).map_or(0, |(enabled, _)| enabled);
        per_cpu.map_or_else(Vec::new, |event| event.fds.iter().map(times).collect())
    }

    /// Returns the factor by which an event's counts are multiplied because it shared a counter.
    pub fn multiplex_scale(&self, event: usize) -> f64 {
        match self.events.get(event) {
            Some(event) if event.spec.shares_counters() => perf::multiplex_scale(&event.fds),
            _ => 1.0,
        }
    }

    pub fn read_bookkeeping(&mut self, collection: &mut Collection) {
        if let Some(codes) = &self.codes {
            collection.functions.add_objects(codes.take());
            if collection.functions.is_full() {
                collection.warnings.insert(FUNCTIONS_LOST.into());
            }
        }
        if let Some(labels) = &self.labels {
            collection.labels.add_texts(labels.take());
        }
        let Collection { images, maps, .. } = collection;
        let mut lost = 0;
        self.bookkeeping.read(monotonic_ns(), |record| {
            if let crate::events::records::Body::Lost { count } = record.body {
                lost += count;
            }
            maps.apply_record(record, images);
        });
        if lost > 0 {
            maps.scan_again(images);
        }
        if let Some(unwinding) = &mut self.unwinding {
            unwinding.serve_wanted(images, maps);
        }
        if lost > 0 {
            collection.warnings.insert(rings::RECORDS_LOST.into());
        }
    }

    fn drain_full(&mut self, collection: &mut Collection) -> Result<(), Error> {
        let before = self.drained_at;
        let buffer = self.kernel.flip_buffers();
        self.drained_at = monotonic_ns();
        collection.begin_slice(before.midpoint(self.drained_at));
        // After the flip: each mapping that precedes a sample in `buffer` has its record.
        self.read_bookkeeping(collection);
        self.drains += 1;
        let labelled = self.take_labelled();
        collection.labelled.extend(labelled);
        let tables = self.kernel.buffer_tables(buffer).clearing_reads();
        let (drained, mut stored) = count_samples(collection, &tables, self.setting)?;
        if self.setting.off_cpu {
            // Waits may refer to frames of former drains.
            let drain = self.drains;
            let stacks = drained.stacks();
            let stacks = stacks.map(|(number, words)| (number, (words.to_vec(), drain)));
            self.frames.extend(stacks);
            self.count_waits(collection, &tables, &mut stored)?;
        }
        let events = collection.totals.len();
        let accounts = check_accounts(collection, &tables, events, &stored)?;
        tables.clear_accounts()?;
        for (total, account) in collection.totals.iter_mut().zip(&accounts) {
            total.taken += account.taken;
            total.stored += account.stored;
            total.dropped += account.dropped;
        }
        self.forget_frames();
        collection.maps.forget_ended(before);
        Ok(())
    }

    fn count_waits(
        &self,
        collection: &mut Collection,
        tables: &Tables<'_>,
        stored: &mut [u64],
    ) -> Result<(), Error> {
        tables.read_waits(|key, wait| {
            let amount = Amount {
                count: wait.count,
                weight: wait.weight_ns,
            };
            stored[key.thread.event as usize] += wait.count;
            let (frames, setting) = (&self.frames, self.setting);
            count_wait(collection, frames, setting, key, wait.first_ns, amount);
            collection.bound_stacks();
        })
    }

    /// Counts the wait of a thread that was still off the CPU when the recording ended.
    fn unfinished_wait(&self, collection: &mut Collection, waiting: &Waiting, end: u64) {
        let woken = if waiting.woken_ns == 0 {
            end
        } else {
            waiting.woken_ns
        };
        let mut part = |event: u16, from: u64, to: u64| {
            if from >= to {
                return;
            }
            let mut key = waiting.key;
            key.thread.event = event;
            let amount = Amount {
                count: 1,
                weight: to - from,
            };
            count_wait(collection, &self.frames, self.setting, &key, from, amount);
            let total = &mut collection.totals[event as usize];
            total.taken += 1;
            total.stored += 1;
        };
        part(self.setting.off_events[0], waiting.since_ns, woken);
        part(self.setting.off_events[1], woken, end);
    }

    /// Drops the stacks to which no table can refer any more.
    fn forget_frames(&mut self) {
        let mut used = FxHashSet::default();
        self.kernel.each_waiting(|waiting| {
            let key = &waiting.key;
            used.extend([key.thread.user, key.thread.kernel]);
            used.extend([key.waker_user, key.waker_kernel]);
        });
        // A thread that ran again since is in the tables that are being filled: one drain more.
        let drains = self.drains;
        self.frames
            .retain(|number, (_, seen)| *seen + 1 >= drains || used.contains(number));
        for number in used {
            if let Some((_, seen)) = self.frames.get_mut(&number) {
                *seen = drains;
            }
        }
    }
}

type FrameTable = FxHashMap<u64, (Vec<u64>, u64)>;

/// Returns the stack of a thread's key.
fn thread_stack(
    collection: &mut Collection,
    frames: &FrameTable,
    setting: Setting,
    key: &StackKey,
    first_ns: u64,
) -> Option<StackId> {
    let of = |number: u64| frames.get(&number).map_or(&[][..], |kept| &kept.0);
    let words = (of(key.user), of(key.kernel));
    collection.stack_of_words(setting, key.tgid, first_ns, words)
}

fn count_wait(
    collection: &mut Collection,
    frames: &FrameTable,
    setting: Setting,
    key: &OffKey,
    first_ns: u64,
    amount: Amount,
) {
    let thread = &key.thread;
    let process = collection.field_name(&thread.name);
    let cgroup = Some(collection.cgroup(thread.cgroup));
    let stack = thread_stack(collection, frames, setting, thread, first_ns).unwrap_or_else(|| {
        // If neither stack could be read, the wait is counted at an unknown place.
        let unknown = Location {
            image: crate::processes::images::UNKNOWN,
            offset: ImageOffset(0),
        };
        collection.tally.stacks.intern(unknown, None)
    });
    let waker =
        (key.waker_name[0] != 0).then(|| waker_key(collection, frames, setting, key, first_ns));
    let sample = SampleKey {
        event: EventId(thread.event),
        process,
        pid: setting.per_process.then_some(thread.tgid),
        tid: setting.per_thread.then_some(thread.tid),
        cgroup,
        labels: None,
        stack,
        slice: collection.slice(),
        waker,
    };
    collection.tally.count_sample(sample, amount);
    let thread = ThreadKey {
        event: EventId(thread.event),
        pid: thread.tgid,
        tid: thread.tid,
        process,
        cgroup,
    };
    collection.tally.count_in_thread(thread, amount);
}

fn waker_key(
    collection: &mut Collection,
    frames: &FrameTable,
    setting: Setting,
    key: &OffKey,
    first_ns: u64,
) -> Waker {
    let thread = StackKey {
        user: key.waker_user,
        kernel: key.waker_kernel,
        tgid: key.waker_tgid,
        space: key.waker_space,
        ..Default::default()
    };
    Waker {
        process: collection.field_name(&key.waker_name),
        tid: key.waker_tid,
        stack: thread_stack(collection, frames, setting, &thread, first_ns),
    }
}
