//! Recording through ring buffers: without BPF, without privileges, or with a copy of the stack.

use crate::bpf::followed::{FollowedTarget, SampleFilter};
use crate::bpf::snapshots::{Snapshot, Snapshots};
use crate::events::cost;
use crate::events::jitter::Jitter;
use crate::events::perf::{self, Scope};
use crate::events::records::{ALL_REGISTERS, Body, Record, split_callchain, unwind_register_mask};
use crate::events::rings::{self, Mappings, Rings};
use crate::processes::cgroups::cgroup_of_process;
use crate::processes::stat::ProcessStat;
use crate::recording::backlog::Backlog;
use crate::recording::branches::Branches;
use crate::recording::collection::{Collection, kernel_location};
use crate::recording::lowered_rate::LoweredRate;
use crate::recording::stacks::StackReader;
use crate::recording::tally::{Amount, SampleKey, ThreadKey};
use crate::{Error, EventSpec, Options, Separation};
use perf_event_open_sys::bindings::{self as pe, perf_event_attr};
use profile::{CallGraph, EventId, Location, NameId, ProcessAddress, StackId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;

/// Pages of the rings of a CPU, for samples and for records about processes: together the limit of
/// an unprivileged user.
const PAGES: usize = 64;
const PAGES_FOR_RECORDS: usize = 32;
/// These numbers if all processes are watched.
const PAGES_OF_ALL: usize = 256;
const PAGES_FOR_ALL_RECORDS: usize = 512;
/// Maximum number of threads whose events are opened one by one, on each CPU.
const MOST_OWN_THREADS: usize = 256;
/// Pages for copies of stacks.
const PAGES_FOR_STACKS: usize = 4096;
/// Pages for branch stacks, of up to 64 entries.
const PAGES_FOR_BRANCHES: usize = 512;
/// Fullness of a ring above which it may overflow the next time. It applies to the memory of
/// waiting records, too.
const TOO_FULL: f64 = 0.5;
/// Time between two drains of the rings while records are processed: about every sixteen stacks.
const DRAIN_INTERVAL_NS: u64 = 1_000_000;
/// Time for which records are processed in one go.
const WORK_NS: u64 = 20_000_000;
/// Lowest rate to which sampling is slowed down, in samples a second.
const LOWEST_RATE: u64 = 50;

/// Warning for kernels that report lost samples only by records of the rings, which do not separate
/// them from other records.
const LOST_BY_RECORDS: &str = "this kernel does not count lost samples (Linux 6.0 and later do): that many records found no room in the rings of samples, some of which may be none";

/// Tasks for which events are opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tasks {
    /// A process that is about to execute its command, and its children.
    Command(u32),
    /// A running process, and its children.
    Process(u32),
    /// All processes of this user, and their children.
    Own,
    /// All tasks on each CPU; only a command's samples are kept.
    AllForCommand(u32),
    /// All tasks on each CPU; only a process's samples are kept.
    AllForProcess(u32),
    /// All tasks.
    All,
}

impl Tasks {
    /// Returns the requested process; `None`: all are.
    pub fn process(self) -> Option<u32> {
        match self {
            Self::All | Self::Own => None,
            Self::Command(pid)
            | Self::Process(pid)
            | Self::AllForCommand(pid)
            | Self::AllForProcess(pid) => Some(pid),
        }
    }

    fn on_each_cpu(self) -> bool {
        !matches!(self, Self::Command(_) | Self::Process(_) | Self::Own)
    }

    /// Returns the target whose samples are kept, if the events also sample others.
    fn followed(self) -> Option<FollowedTarget> {
        match self {
            Self::AllForCommand(pid) => Some(FollowedTarget { pid, armed: false }),
            Self::AllForProcess(pid) => Some(FollowedTarget { pid, armed: true }),
            Self::Command(_) | Self::Process(_) | Self::Own | Self::All => None,
        }
    }
}

/// Events with rings, and their reader.
pub(crate) struct RingSource {
    rings: Rings,
    /// Number of the event by the kernel's id.
    numbers: FxHashMap<u64, usize>,
    /// The timed events: descriptor, requested nominal period.
    timed: Vec<(OwnedFd, u64)>,
    on_each_cpu: bool,
    /// Records taken out of the rings.
    backlog: Backlog,
    rate: LoweredRate,
    names: FxHashMap<u32, NameId>,
    /// Paths of the control groups, by process.
    cgroups: FxHashMap<u32, Option<NameId>>,
    /// The processes whose samples are kept; `None`: all.
    followed: Option<FxHashSet<u32>>,
    /// The process that is followed from its next program on.
    awaited: Option<u32>,
    separation: Separation,
    stacks: StackReader,
    branches: Branches,
    /// Snapshots of registers and of the memory that the code reads.
    snapshots: Option<Snapshots>,
    /// Filter in the kernel that drops the samples of other processes, if that is possible.
    filter: Option<SampleFilter>,
    /// Samples read, and those of them that were kept, by event.
    read_samples: Vec<(u64, u64)>,
    /// Reason that requested snapshots are missing.
    pub without_snapshots: Option<Error>,
    jitter: Option<Jitter>,
    pub kernel: bool,
    call_graph: CallGraph,
    stack_bytes: u32,
}

impl RingSource {
    /// Makes a source without events.
    pub fn none(options: &Options) -> Self {
        Self {
            rings: Rings::new([PAGES, PAGES_FOR_RECORDS]),
            numbers: FxHashMap::default(),
            timed: Vec::new(),
            on_each_cpu: false,
            backlog: Backlog::default(),
            rate: LoweredRate::new(0),
            names: FxHashMap::default(),
            cgroups: FxHashMap::default(),
            followed: None,
            awaited: None,
            separation: options.separation,
            stacks: StackReader::new(),
            branches: Branches::new(),
            snapshots: None,
            filter: None,
            read_samples: Vec::new(),
            without_snapshots: None,
            jitter: None,
            kernel: true,
            call_graph: options.call_graph,
            stack_bytes: options.stack_bytes,
        }
    }

    /// Makes a source of records that are passed to [`pretend`](Self::pretend), of events that are
    /// not open: the first one's number is 1.
    pub fn pretended(options: &Options, events: &[EventSpec]) -> Result<Self, Error> {
        let mut source = Self::none(options);
        let attributes = |spec: &EventSpec| {
            let mut attr = rings::sampling(spec, 1);
            add_stacks(&mut attr, spec, options, false);
            attr
        };
        source
            .rings
            .pretend(&attributes(&EventSpec::cpu_clock()), 0)?;
        for (number, spec) in events.iter().enumerate() {
            let id = number as u64 + 1;
            source.rings.pretend(&attributes(spec), id)?;
            source.numbers.insert(id, number);
        }
        Ok(source)
    }

    /// Processes a record as if the kernel had written it.
    pub fn pretend(&mut self, kind: u32, misc: u16, body: &[u8]) {
        if let Some(record) = self.rings.decode(kind, misc, body) {
            self.backlog.push(record);
        }
    }

    /// Measures the cost of a sample to a CPU of this machine, in nanoseconds, with an unread ring.
    pub fn sample_cost(options: &Options, spec: &EventSpec) -> Result<u64, Error> {
        let snapshots = options.registers.then(|| Snapshots::new(None));
        let mut snapshots = snapshots.and_then(Result::ok);
        let mut attr = rings::sampling(spec, spec.period_at(cost::PROBE_HERTZ));
        add_stacks(&mut attr, spec, options, snapshots.is_some());
        cost::of_unread(spec, &attr, PAGES, |fd| {
            snapshots.as_mut().map_or(Ok(()), |one| one.attach(fd))
        })
    }

    /// Opens the events for the tasks.
    pub fn open(
        options: &Options,
        events: &[(EventSpec, u64)],
        tasks: &Tasks,
        cpus: &[i32],
        jitter: Option<Jitter>,
    ) -> Result<Self, Error> {
        let branches = events.iter().any(|(spec, _)| spec.branches);
        let mut pages = if tasks.on_each_cpu() {
            [PAGES_OF_ALL, PAGES_FOR_ALL_RECORDS]
        } else {
            [PAGES, PAGES_FOR_RECORDS]
        };
        match (options.call_graph, branches) {
            (CallGraph::Dwarf, _) => pages[0] = PAGES_FOR_STACKS,
            (_, true) => pages[0] = PAGES_FOR_BRANCHES,
            (_, false) => {}
        }
        let mut source = Self::none(options);
        source.rings = Rings::new(pages);
        source.jitter = jitter;
        source.on_each_cpu = tasks.on_each_cpu();
        source.read_samples = vec![(0, 0); events.len()];
        source.rate = LoweredRate::new(events.len());
        let target = tasks.followed();
        if options.registers {
            match Snapshots::new(target) {
                Ok(snapshots) => source.snapshots = Some(snapshots),
                Err(error) => source.without_snapshots = Some(error),
            }
        }
        // Without the filter, samples of other processes are skipped when they are read.
        source.filter = target.and_then(|target| SampleFilter::new(target).ok());
        let with_snapshots = source.snapshots.is_some();
        let threads = match tasks {
            Tasks::Command(pid) => vec![*pid as i32],
            Tasks::Process(pid) => threads_of(*pid)?,
            Tasks::Own => own_threads(),
            Tasks::AllForCommand(pid) => {
                source.followed = Some(FxHashSet::default());
                source.awaited = Some(*pid);
                vec![-1]
            }
            Tasks::AllForProcess(pid) => {
                source.followed = Some(std::iter::once(*pid).collect());
                vec![-1]
            }
            Tasks::All => vec![-1],
        };
        let attributes = |spec: &EventSpec, period: u64| {
            let mut attr = rings::sampling(spec, period);
            add_stacks(&mut attr, spec, options, with_snapshots);
            attr.set_inherit(u64::from(!tasks.on_each_cpu()));
            attr.set_enable_on_exec(u64::from(matches!(tasks, Tasks::Command(_))));
            attr.set_watermark(1); // at a quarter
            attr
        };
        let of = |&pid| cpus.iter().map(move |&cpu| Scope { pid, cpu });
        let like = attributes(&EventSpec::cpu_clock(), 1);
        let mut scopes = Vec::new();
        for scope in threads.iter().flat_map(of) {
            match source.open_bookkeeping(&like, scope) {
                // A process that changed its user.
                Err(Error::ProcessRefused { .. }) if *tasks == Tasks::Own => {}
                opened => opened.map(|()| scopes.push(scope))?,
            }
        }
        for (number, (spec, period)) in events.iter().enumerate() {
            let attr = attributes(spec, *period);
            for scope in &scopes {
                source.open_event(spec, number, *period, attr, *scope)?;
            }
        }
        Ok(source)
    }

    /// Opens the event for records about processes, first, so that a ring starts with them.
    fn open_bookkeeping(&mut self, like: &perf_event_attr, scope: Scope) -> Result<(), Error> {
        for mappings in [Mappings::ByInode, Mappings::ByBuildId] {
            let attr = rings::bookkeeping(like, mappings);
            match self.rings.open(&attr, scope) {
                Ok(_) => {}
                Err(error) if is_gone(&error, scope) => {}
                Err(_) if mappings == Mappings::ByBuildId => {}
                // User-mode records, which every user may have of their own processes.
                Err(source) if perf::is_refused(&source) && scope.pid > 0 => {
                    let pid = scope.pid as u32;
                    return Err(Error::ProcessRefused { pid, source });
                }
                Err(source) => {
                    return Err(crate::events::advice::event_refused(
                        &EventSpec::cpu_clock(),
                        source,
                    ));
                }
            }
        }
        Ok(())
    }

    fn open_event(
        &mut self,
        spec: &EventSpec,
        number: usize,
        nominal: u64,
        mut attr: perf_event_attr,
        scope: Scope,
    ) -> Result<(), Error> {
        if !self.kernel {
            perf::user_only(&mut attr);
        }
        if let Some(jitter) = &mut self.jitter
            && spec.is_timed()
        {
            attr.__bindgen_anon_1.sample_period = jitter.random_period(nominal);
        }
        let fd = match self.rings.open(&attr, scope) {
            Ok(fd) => fd,
            Err(error) if is_gone(&error, scope) => return Ok(()),
            // kernel.perf_event_paranoid >= 2: user mode only.
            Err(error) if perf::is_refused(&error) && self.kernel && !spec.exclude_kernel => {
                self.kernel = false;
                return self.open_event(spec, number, nominal, attr, scope);
            }
            Err(source) => return Err(crate::events::advice::event_refused(spec, source)),
        };
        self.numbers.insert(perf::event_id(fd)?, number);
        match (&mut self.snapshots, &mut self.filter) {
            (Some(snapshots), _) if !spec.branches => snapshots.attach(fd)?,
            (_, Some(filter)) => filter.attach(fd)?,
            _ => {}
        }
        if spec.is_timed() {
            let copy = fd.try_clone().map_err(|source| Error::System {
                what: "copying a descriptor".into(),
                source,
            })?;
            self.timed.push((copy, nominal));
            self.rate.add_timed(number);
        }
        Ok(())
    }

    /// Starts sampling; events of a command start by themselves when it is executed.
    pub fn enable(&self, tasks: &Tasks) -> Result<(), Error> {
        if matches!(tasks, Tasks::Command(_)) {
            return Ok(());
        }
        self.rings.enable()
    }

    /// Returns the factor by which an event's counts are multiplied because it shared a counter.
    pub fn multiplex_scale(&self, event: usize) -> f64 {
        let own = |id: &u64| self.numbers.get(id) == Some(&event);
        self.rings.multiplex_scale(own)
    }

    /// Returns the descriptors to poll.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> + '_ {
        let snapshots = self.snapshots.iter().map(Snapshots::descriptor);
        self.rings.descriptors().chain(snapshots)
    }

    /// Reads the available records, processes them for a while, and sets new random periods if
    /// `new_periods`. Called several times a second and when a ring fills.
    pub fn tick(&mut self, collection: &mut Collection, new_periods: bool) {
        if let Some(jitter) = &mut self.jitter
            && new_periods
        {
            for (fd, nominal) in &self.timed {
                let nominal = nominal * self.rate.kernel_factor();
                jitter.set_periods(std::slice::from_ref(fd), nominal);
            }
        }
        self.take_in(collection, false);
        let deadline = crate::clock::monotonic_ns() + WORK_NS;
        self.work_until(collection, deadline, false);
    }

    /// Returns whether there is work that needs no waiting.
    pub fn is_ready(&self) -> bool {
        self.backlog.is_ready()
    }

    /// Drains the rings into memory; an `ended` source yields no more records. When memory is
    /// short, samples stay in the rings, and the kernel counts those that find no room.
    fn take_in(&mut self, collection: &mut Collection, ended: bool) {
        let until = if ended {
            u64::MAX
        } else {
            crate::clock::monotonic_ns()
        };
        let with_samples = self.backlog.fullness() < 1.0 || !self.backlog.is_ready();
        let Self {
            rings,
            numbers,
            backlog,
            rate,
            ..
        } = self;
        let ring_fullness = rings.drain(with_samples, |record| {
            let event = numbers.get(&record.id);
            let event = event.filter(|_| matches!(record.body, Body::Sample { .. }));
            if event.is_none_or(|event| rate.keeps_sample(*event, record.time)) {
                backlog.push(record);
            }
        });
        if with_samples {
            backlog.set_complete_until(until);
        }
        let snapshot_fullness = self.snapshots.as_mut().map_or(0.0, Snapshots::take_in);
        // Inherited events have periods of their own, so skipping samples leaves their rings as
        // full as before.
        let in_kernel = self.on_each_cpu && ring_fullness.max(snapshot_fullness) > TOO_FULL;
        if !ended && (in_kernel || self.backlog.fullness() > TOO_FULL) {
            self.slow_down(collection);
        }
    }

    /// Processes the records that are ready, until a time on the monotonic clock, and drains the
    /// rings meanwhile.
    fn work_until(&mut self, collection: &mut Collection, deadline: u64, ended: bool) {
        let mut drain_at = crate::clock::monotonic_ns() + DRAIN_INTERVAL_NS;
        let mut last = 0;
        let mut is_over = |source: &mut Self, collection: &mut Collection| {
            let now = crate::clock::monotonic_ns();
            if now >= drain_at {
                source.take_in(collection, ended);
                drain_at = crate::clock::monotonic_ns() + DRAIN_INTERVAL_NS;
            }
            now >= deadline
        };
        while let Some(record) = self.backlog.pop_ready() {
            last = record.time;
            self.take(collection, record);
            if is_over(self, collection) {
                break;
            }
        }
        // All mappings up to this time are known.
        let known = self.backlog.handed_out_until();
        let snapshots = self.snapshots.as_mut().map(|all| all.take_until(known));
        for one in snapshots.unwrap_or_default() {
            self.observe(collection, &one);
            is_over(self, collection);
        }
        collection
            .maps
            .forget_ended(last.saturating_sub(1_000_000_000));
    }

    /// Halves the rate of timed events and thins out their earlier samples, before samples are lost
    /// at random.
    fn slow_down(&mut self, collection: &mut Collection) {
        let lowest = 1_000_000_000 / LOWEST_RATE;
        let rate = &self.rate;
        let is_lowest = |(_, nominal): &(OwnedFd, u64)| {
            rate.timed_events()
                .any(|event| nominal * rate.factor(event) > lowest / 2)
        };
        if self.timed.is_empty() || self.timed.iter().any(is_lowest) {
            return;
        }
        let lost = self.on_each_cpu.then(|| {
            let events = 0..collection.totals.len();
            events
                .map(|event| self.lost_of(event).unwrap_or(0))
                .collect()
        });
        if self.on_each_cpu {
            let factor = self.rate.kernel_factor() * 2;
            for (fd, nominal) in &self.timed {
                let _ = perf::set_period(fd, *nominal * factor);
            }
        }
        self.rate.halve(crate::clock::monotonic_ns(), lost);
        let (rate, numbers) = (&mut self.rate, &self.numbers);
        self.backlog.retain(|record| match record.body {
            Body::Sample { .. } => numbers
                .get(&record.id)
                .is_none_or(|event| rate.keeps_half(*event)),
            _ => true,
        });
        let rate = &self.rate;
        let seed = crate::clock::monotonic_ns();
        let left = collection.tally.thin_out(
            collection.totals.len(),
            |event| rate.is_timed(usize::from(event.0)),
            seed ^ seed >> 7,
        );
        for event in rate.timed_events() {
            let total = &mut collection.totals[event];
            total.stored = left[event];
            total.dropped /= 2;
            total.lost /= 2;
            total.taken = total.stored + total.dropped;
        }
    }

    /// Returns how many samples of an event found no room, at whatever rate; `None` if the kernel
    /// does not report it.
    fn lost_of(&self, event: usize) -> Option<u64> {
        let own = |id: &u64| self.numbers.get(id) == Some(&event);
        self.rings.lost_samples(own)
    }

    /// Returns the factor by which the period of an event exceeds the requested one, because
    /// samples came faster than they could be read.
    pub fn slowdown(&self, event: usize) -> u64 {
        self.rate.factor(event)
    }

    /// Stops sampling and reads the remaining samples.
    pub fn finish(&mut self, collection: &mut Collection) -> Result<(), Error> {
        self.rings.disable()?;
        loop {
            self.take_in(collection, true);
            self.work_until(collection, u64::MAX, true);
            if self.backlog.is_empty() {
                break;
            }
        }
        self.count_lost(collection);
        let slowdown = self.rate.timed_events().map(|event| self.slowdown(event));
        if let Some(slowdown) = slowdown.max().filter(|factor| *factor > 1) {
            collection.warnings.insert(format!(
                "samples came faster than they could be read: the rate was lowered to 1/{slowdown} of what it was to be, for the whole recording",
            ));
        }
        collection
            .warnings
            .extend(self.stacks.warnings(self.stack_bytes));
        let snapshots = self.snapshots.iter();
        collection
            .warnings
            .extend(snapshots.flat_map(Snapshots::warnings));
        Ok(())
    }

    /// Counts the samples that found no room.
    fn count_lost(&self, collection: &mut Collection) {
        for event in 0..self.read_samples.len() {
            self.settle_lost(event, self.lost_of(event), collection);
        }
    }

    /// Determines how many samples of an event were lost, by the kernel's count, or else by the
    /// rings' records. If other processes are sampled too, the target's share of the lost samples
    /// is assumed to equal its share of those read.
    fn settle_lost(&self, event: usize, counted: Option<u64>, collection: &mut Collection) {
        let (read, asked) = self.read_samples[event];
        let total = &mut collection.totals[event];
        let lost = match counted {
            Some(lost) => self.rate.lost_at_rate(event, lost),
            None => total.lost,
        };
        if counted.is_none() && lost > 0 {
            collection.warnings.insert(LOST_BY_RECORDS.into());
        }
        total.lost = (u128::from(lost) * u128::from(asked) / u128::from(read.max(1))) as u64;
    }

    fn take(&mut self, collection: &mut Collection, record: Record) {
        match &record.body {
            Body::Sample { .. } => self.sample(collection, &record),
            Body::Lost { count } => {
                match self.numbers.get(&record.id) {
                    // A record from a ring of samples.
                    Some(event) => {
                        let excess = self.rate.excess_at(*event, record.time);
                        collection.totals[*event].lost += count.div_ceil(excess);
                    }
                    None => {
                        collection.warnings.insert(rings::RECORDS_LOST.into());
                        collection.maps.scan_again(&mut collection.images);
                    }
                }
            }
            body => {
                match body {
                    Body::Comm { name, exec } => {
                        if *exec && self.awaited == Some(record.pid) {
                            self.awaited = None;
                            self.followed.get_or_insert_default().insert(record.pid);
                        }
                        let name = collection.tally.names.intern(name);
                        self.names.insert(record.tid, name);
                        if *exec {
                            // A container's launcher moves the process into its group before that.
                            self.cgroups.remove(&record.pid);
                        }
                    }
                    Body::Fork { parent } => {
                        if let Some(followed) = &mut self.followed
                            && *parent != record.pid
                        {
                            // A reused id may belong to another process.
                            if followed.contains(parent) {
                                followed.insert(record.pid);
                            } else {
                                followed.remove(&record.pid);
                            }
                        }
                        // A child starts in its parent's group, and may have ended before it can be
                        // read.
                        match self.cgroups.get(parent).copied() {
                            _ if *parent == record.pid => {}
                            Some(cgroup) => _ = self.cgroups.insert(record.pid, cgroup),
                            None => _ = self.cgroups.remove(&record.pid),
                        }
                        // A thread starts with its creator's name, not with that of the id's last
                        // owner.
                        match self.names.get(parent).copied() {
                            Some(name) => self.names.insert(record.tid, name),
                            None => self.names.remove(&record.tid),
                        };
                    }
                    _ => {}
                }
                collection.maps.apply_record(record, &mut collection.images);
            }
        }
    }

    /// Returns whether a process is neither the idle task nor outside of the target.
    fn is_asked_for(&self, pid: u32) -> bool {
        let followed = self.followed.as_ref();
        pid != 0 && followed.is_none_or(|pids| pids.contains(&pid))
    }

    fn observe(&mut self, collection: &mut Collection, one: &Snapshot) {
        let counter = one.registers.counter;
        if !self.is_asked_for(one.pid) {
            return;
        }
        let at = collection.locate_address(one.pid, one.time, ProcessAddress(counter));
        let branches = &mut self.branches;
        if let Some(all) = &mut self.snapshots {
            all.extend_slice(counter, |slice| {
                let slice = slice.map(|slice| (slice, one.values.as_slice()));
                branches.observe_sample(collection, one.pid, at, &one.registers, slice);
            });
        }
    }

    fn sample(&mut self, collection: &mut Collection, record: &Record) {
        let Some(&event) = self.numbers.get(&record.id) else {
            return;
        };
        let is_asked_for = self.is_asked_for(record.pid);
        if let Some((read, asked)) = self.read_samples.get_mut(event) {
            *read += 1;
            *asked += u64::from(is_asked_for);
        }
        if !is_asked_for {
            return;
        }
        let total = &mut collection.totals[event];
        total.taken += 1;
        let Some(stack) = self.stack(collection, record) else {
            collection.totals[event].dropped += 1;
            return;
        };
        collection.totals[event].stored += 1;
        let process = self.name(collection, record.pid, record.tid);
        let cgroup = self.cgroup(collection, record.pid);
        let one = Amount {
            count: 1,
            weight: 1,
        };
        let event = EventId(event as u16);
        collection.begin_slice(record.time);
        let key = SampleKey {
            event,
            process,
            pid: (self.separation >= Separation::Processes).then_some(record.pid),
            tid: (self.separation >= Separation::Threads).then_some(record.tid),
            cgroup,
            labels: None,
            stack,
            slice: collection.slice(),
            waker: None,
        };
        collection.tally.count_sample(key, one);
        let key = ThreadKey {
            event,
            pid: record.pid,
            tid: record.tid,
            process,
            cgroup,
        };
        collection.tally.count_in_thread(key, one);
        collection.bound_stacks();
    }

    fn stack(&mut self, collection: &mut Collection, record: &Record) -> Option<StackId> {
        let Body::Sample {
            ip,
            in_kernel,
            callchain,
            stack,
            registers,
            branches,
        } = &record.body
        else {
            return None;
        };
        if let Some(branches) = branches {
            self.branches.add_stack(collection, record, branches);
            // Its samples have no call stack.
            let location = place(collection, record, *ip, *in_kernel);
            return Some(collection.tally.stacks.intern(location, None));
        }
        if let Some(registers) = registers
            && !in_kernel
        {
            let address = ProcessAddress(*ip);
            let at = collection.locate_address(record.pid, record.time, address);
            let pid = record.pid;
            self.branches
                .observe_sample(collection, pid, at, registers, None);
        }
        match self.call_graph {
            CallGraph::None => {
                let location = place(collection, record, *ip, *in_kernel);
                Some(collection.tally.stacks.intern(location, None))
            }
            CallGraph::FramePointer | CallGraph::Tables => {
                let (kernel, user) = split_callchain(callchain);
                collection.add_stack(record.pid, record.time, &user, &kernel)
            }
            CallGraph::Dwarf => {
                let (kernel, _) = split_callchain(callchain);
                let user = stack.as_deref().map(|(registers, bytes)| {
                    self.stacks
                        .unwind_user(collection, record, registers, bytes)
                });
                let user = user.unwrap_or_default();
                collection.unwound_stack(record.pid, record.time, &user, &kernel)
            }
        }
    }

    /// Returns the control group of a process when it was first sampled.
    fn cgroup(&mut self, collection: &mut Collection, pid: u32) -> Option<NameId> {
        *self.cgroups.entry(pid).or_insert_with(|| {
            let path = cgroup_of_process(pid)?;
            Some(collection.tally.names.intern(&path))
        })
    }

    fn name(&mut self, collection: &mut Collection, pid: u32, tid: u32) -> NameId {
        *self.names.entry(tid).or_insert_with(|| {
            let comm = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm"));
            let comm = comm.unwrap_or_else(|_| format!("[{tid}]"));
            collection.tally.names.intern(comm.trim_end())
        })
    }
}

/// Returns the location of a sample.
fn place(collection: &mut Collection, record: &Record, ip: u64, in_kernel: bool) -> Location {
    if in_kernel {
        kernel_location(ip)
    } else {
        collection.locate_address(record.pid, record.time, ProcessAddress(ip))
    }
}

/// Requests registers and stacks with samples, except for events with branch stacks.
fn add_stacks(attr: &mut perf_event_attr, spec: &EventSpec, options: &Options, snapshots: bool) {
    if spec.branches {
        return;
    }
    if options.registers && !snapshots {
        attr.sample_type |= u64::from(pe::PERF_SAMPLE_REGS_USER);
        attr.sample_regs_user = ALL_REGISTERS;
    }
    match options.call_graph {
        CallGraph::None => {}
        CallGraph::FramePointer | CallGraph::Tables => {
            attr.sample_type |= u64::from(pe::PERF_SAMPLE_CALLCHAIN)
        }
        CallGraph::Dwarf => {
            attr.sample_type |= u64::from(
                pe::PERF_SAMPLE_CALLCHAIN | pe::PERF_SAMPLE_REGS_USER | pe::PERF_SAMPLE_STACK_USER,
            );
            attr.set_exclude_callchain_user(1);
            attr.sample_regs_user |= unwind_register_mask();
            // The kernel wants a multiple of eight, and a record holds less than 64 KiB.
            attr.sample_stack_user =
                options.stack_bytes.clamp(1024, Options::MOST_STACK_BYTES) & !7;
        }
    }
}

/// Returns whether the error means that a thread has ended since it was listed.
fn is_gone(error: &io::Error, scope: Scope) -> bool {
    scope.pid > 0 && error.raw_os_error() == Some(libc::ESRCH)
}

/// Returns the threads of this user's processes, without this process: those of the processes with
/// most CPU time, if there are very many.
fn own_threads() -> Vec<i32> {
    // SAFETY: a call without pointers.
    let user = unsafe { libc::geteuid() };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let own = entries.filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let is_own = entry.metadata().ok()?.uid() == user && pid != std::process::id();
        // A process with more rights shows its maps to nobody with fewer.
        let is_open = is_own && std::fs::File::open(entry.path().join("maps")).is_ok();
        let stat = ProcessStat::read_process(pid).filter(|_| is_open)?;
        Some((stat.cpu_ticks, pid))
    });
    let mut own: Vec<(u64, u32)> = own.collect();
    own.sort_unstable_by(|a, b| b.cmp(a));
    let threads = own
        .iter()
        .flat_map(|(_, pid)| threads_of(*pid).unwrap_or_default());
    threads.take(MOST_OWN_THREADS).collect()
}

fn threads_of(pid: u32) -> Result<Vec<i32>, Error> {
    let entries =
        std::fs::read_dir(format!("/proc/{pid}/task")).map_err(|_| Error::NoSuchProcess { pid })?;
    Ok(entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TargetSpec;

    #[test]
    fn lost_samples_are_those_of_the_target_and_records_only_where_samples_are_not_counted() {
        let options = Options::new(TargetSpec::Machine);
        let mut source = RingSource::none(&options);
        source.read_samples = vec![(10, 5)];
        source.rate = LoweredRate::new(1);
        for (counted, lost, is_said) in [(Some(6), 3, false), (None, 4, true)] {
            let mut collection = Collection::new(1);
            collection.totals[0].lost = 8;
            source.settle_lost(0, counted, &mut collection);
            assert_eq!(collection.totals[0].lost, lost, "{counted:?}");
            assert_eq!(collection.warnings.contains(LOST_BY_RECORDS), is_said);
        }
    }

    #[test]
    fn the_rate_is_lowered_for_the_whole_recording() {
        let options = Options::new(TargetSpec::Machine);
        let mut source = RingSource::none(&options);
        let null = std::fs::File::open("/dev/null").expect("it is there");
        source.timed = vec![(null.into(), 1_000_000)]; // 1 kHz
        source.rate = LoweredRate::new(2);
        source.rate.add_timed(0);
        source.on_each_cpu = true;
        let mut collection = Collection::new(2);
        let process = collection.tally.names.intern("x");
        for event in [0, 1] {
            for place in 0..100 {
                let stack = collection.tally.stacks.intern(kernel_location(place), None);
                let amount = Amount {
                    count: place % 7,
                    weight: place % 7,
                };
                let key = SampleKey {
                    event: EventId(event),
                    process,
                    pid: None,
                    tid: None,
                    cgroup: None,
                    labels: None,
                    stack,
                    slice: None,
                    waker: None,
                };
                collection.tally.count_sample(key, amount);
                let total = &mut collection.totals[usize::from(event)];
                (total.taken, total.stored) =
                    (total.taken + amount.count, total.stored + amount.count);
            }
        }
        let before: Vec<u64> = collection.totals.iter().map(|total| total.stored).collect();
        source.slow_down(&mut collection);
        assert_eq!((source.slowdown(0), source.slowdown(1)), (2, 1));
        assert_eq!(source.rate.kernel_factor(), 2);
        let after: Vec<u64> = collection.totals.iter().map(|total| total.taken).collect();
        assert!(
            after[0].abs_diff(before[0] / 2) <= 1,
            "{before:?}, {after:?}"
        );
        assert_eq!(after[1], before[1], "no event of time");
        let mut recording = profile::Recording::new(
            crate::host::read_host(),
            profile::Target::Machine,
            profile::Collector::Ring,
            CallGraph::None,
        );
        let tally = collection.take_tally();
        tally.move_into(&mut recording, |location| location);
        let kept = recording.samples.iter().filter(|one| one.event.0 == 0);
        let (count, places) = kept.fold((0, 0), |(n, places), one| (n + one.count, places + 1));
        assert_eq!(count, after[0]);
        assert!(
            places > 60,
            "samples are taken back everywhere: {places} places"
        );
        // Not below the rate of a useful profile.
        for _ in 0..20 {
            source.slow_down(&mut Collection::new(2));
        }
        assert_eq!(source.slowdown(0), 16);
    }
}
