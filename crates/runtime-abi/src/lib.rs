//! The memory that the runtime inside a target shares with its controller outside.
//!
//! The controller creates one [`Page`]; both map it. All of its fields are atomic: the target may
//! write anything anywhere at any time, and neither side trusts an index from there.
//! `docs/method/causal.md` is the protocol; each field's comment ends with its writer.
#![no_std]
#![forbid(unsafe_code)]

mod clock;
pub mod kernel;
pub mod layout;
pub mod line_pace;
mod place;
pub mod selection;
pub mod switches;
pub mod trace;
pub mod wait;

pub use clock::Clock;
use place::SPINNING;
pub use place::{Place, Rule};
use selection::Steps;

use core::sync::atomic::{
    AtomicI32, AtomicU8, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// The required first word, different for every layout.
pub const MAGIC: u64 = layout::LAYOUT;
/// The signal for each sample, SIGSTKFLT. Linux never sends it and programs do not use it. Unlike a
/// real-time signal it does not queue up while a thread blocks it.
pub const SIGNAL: i32 = 16;
/// The environment variable with the file descriptor of the memory.
pub const VARIABLE: &str = "VITALFEW_PAGE";

/// Maximum number of threads measured at a time.
pub const THREADS: usize = 16_384;
/// Maximum number of fragments (lines or functions).
pub const FRAGMENTS: usize = 65_536;
/// Slots of the table of places, a power of two; at most half of them are used.
pub const PLACES: usize = 1 << 18;
/// Maximum number of processors.
pub const CPUS: usize = 1024;
/// Maximum number of progress points in the program's source.
pub const COUNTERS: usize = 256;
/// Bytes of a progress point's name, with a zero at its end.
pub const NAME: usize = 96;
/// Words of [`Page::lifeline`]: glibc's `pthread_mutex_t` has five on x86-64 and six on AArch64.
pub const LIFELINE: usize = 8;
/// Size of the ring of unknown places, a power of two.
pub const UNKNOWN: usize = 4096;

/// Programs that execute another one in their process: shells, and those that prepare a process.
const STARTERS: [&[u8]; 17] = [
    b"bash", b"busybox", b"chrt", b"dash", b"env", b"ionice", b"ksh93", b"mksh", b"nice", b"nohup",
    b"numactl", b"prlimit", b"setarch", b"sh", b"stdbuf", b"taskset", b"zsh",
];

/// Returns whether an executable's path is that of a program that executes another one in its
/// process. Such a program is not measured: the one that it executes is.
pub fn is_starter_path(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next();
    name.is_some_and(|name| STARTERS.contains(&name))
}

/// Values of [`Page::state`].
pub mod state {
    /// The target has not reached the runtime yet.
    pub const LAUNCHED: u32 = 0;
    /// The runtime waits for the controller.
    pub const READY: u32 = 1;
    /// The target runs and is measured.
    pub const RUNNING: u32 = 2;
    /// The runtime does nothing.
    pub const OFF: u32 = 3;
    /// The runtime is in a shell, which may execute the target in its process.
    pub const IN_STARTER: u32 = 4;
}

/// The shared memory.
#[repr(C, align(4096))]
pub struct Page {
    /// [`MAGIC`]; controller.
    pub magic: AtomicU64,
    /// Time between samples of a thread, in nanoseconds of its CPU time; controller.
    pub period_ns: AtomicU64,
    /// Address of the runtime's handler of [`SIGNAL`]; runtime.
    pub handler: AtomicU64,
    /// 1: the processors are sampled, each at its [`Cpu::period_ns`]; 0: every thread samples
    /// itself; controller.
    pub by_processor: AtomicU32,
    /// One of [`state`], a futex; both.
    pub state: AtomicU32,
    /// The process to measure: of a command, controller; of a running process, runtime.
    pub pid: AtomicU32,
    /// A futex that changes when the controller has news to read; runtime.
    pub news: AtomicU32,
    /// The controller sleeps on `news`.
    pub waiting: AtomicU32,
    /// Number of libraries that were unloaded, whose places may have another meaning now; runtime.
    pub unloaded: AtomicU32,
    /// The errno with which the kernel refused to sample a thread, 0: it refused none; runtime.
    pub refused: AtomicI32,
    /// Number of threads without a slot; runtime.
    pub unmeasured: AtomicU64,
    /// 1: the program reads the unadjusted clocks even while it is delayed; controller.
    pub real_clocks: AtomicU32,
    /// Number of kernel timers that the program has set, which run on while the program is delayed;
    /// runtime.
    pub kernel_timers: AtomicU64,

    /// A robust mutex of the C library, shared between processes. After attaching, the controller
    /// holds it: a thread that acquires it knows that the controller has left or died.
    pub lifeline: [AtomicU64; LIFELINE],

    /// 1: this experiment charges delays at the pace at which the line runs
    /// ([`line_pace::LinePace`]); 0: after each sample; controller.
    pub at_pace: AtomicU32,

    /// 1: in the last experiment the program's threads waited for processors that other processes
    /// used; controller.
    pub shared: AtomicU32,

    /// The set of code that experiments are about, unless that is a single fragment; controller.
    pub selection: selection::Selection,

    /// The current experiment.
    pub experiment: Line<AtomicU64>,
    /// Start of the experiment, by the target's monotonic clock in nanoseconds; controller.
    pub experiment_since: AtomicU64,
    /// The delay that every thread owes ([`Clock`]); both.
    pub global: Line<AtomicU64>,
    /// Total delay of all epochs before this one, in nanoseconds: one word for even epochs, one for
    /// odd ones; controller. See [`Page::passed_before`].
    pub passed: Line<[AtomicU64; 2]>,
    /// The latest time that the program has read from the monotonic clock since delays began, in
    /// nanoseconds; runtime.
    pub shown: Line<AtomicU64>,
    /// Number of samples; runtime.
    pub samples: Line<AtomicU64>,
    /// Number of samples at places that were still unknown; runtime.
    pub misses: AtomicU64,
    /// Number of samples without a fragment in scope in the call chain; runtime.
    pub outside: AtomicU64,
    /// Number of writes by the program to pipes, event descriptors and sockets of its own; runtime.
    pub internal_writes: AtomicU64,
    /// Number of samples in busy-waiting code outside of known waits; runtime.
    pub spinning: Line<AtomicU64>,
    /// Number of waits that another thread of the program ended; runtime.
    pub meetings: Line<AtomicU64>,
    /// Time for which threads stood still to pay delays; runtime.
    pub standing: Line<StandingTime>,

    /// Head of the list of free slots: a tag above index + 1.
    pub free: Line<AtomicU64>,
    /// Slots that have been in use so far.
    pub used: AtomicU32,
    /// Index of the next unknown place in the ring.
    pub unknown_head: Line<AtomicU64>,
    /// Ring of code addresses that the controller is to resolve; 0: none.
    pub unknown: [AtomicU64; UNKNOWN],
    /// Progress points; runtime, and the program itself.
    pub counters: [Counter; COUNTERS],
    /// Samples by fragment; runtime.
    pub fragments: [AtomicU64; FRAGMENTS],
    /// For a fragment that is one of several copies of a line: number of the whole line + 1;
    /// controller.
    pub wholes: [AtomicU32; FRAGMENTS],
    /// Nanoseconds that each fragment waited for events outside of the program; runtime.
    pub waited: [AtomicU64; FRAGMENTS],
    /// The last system call in which each fragment waited ([`wait::ExternalWait::call_word`]);
    /// runtime.
    pub waited_in: [AtomicU32; FRAGMENTS],
    /// 1 + the fragment ([`Running::fragment`]) of the last experiment in which one system call
    /// took several samples; runtime.
    pub long_calls_of: AtomicU32,
    /// The thread that runs on each processor; runtime.
    pub cpus: [Line<Cpu>; CPUS],
    /// Threads; runtime.
    pub threads: [Thread; THREADS],
    /// Resolved places of code; controller.
    pub places: [PlaceEntry; PLACES],
}

/// A value with cache lines of its own.
#[repr(C, align(128))]
pub struct Line<T>(pub T);

/// Time for which threads stood still to pay delays, summed over threads, in nanoseconds.
#[repr(C)]
pub struct StandingTime {
    /// The whole time.
    pub total: AtomicU64,
    /// The part in which the threads had no processor although they wanted one. This part costs the
    /// program nothing.
    pub without_cpu: AtomicU64,
}

/// A processor.
#[repr(C)]
pub struct Cpu {
    /// Id of the target's thread that ran there last.
    pub owner: AtomicU32,
    /// Delay count of that thread ([`Thread::local`]).
    pub clock: AtomicU64,
    /// Time between samples, in nanoseconds; controller.
    pub period_ns: AtomicU64,
    /// Time up to which samples account for the processor's work, by the monotonic clock; runtime.
    pub sampled: AtomicU64,
    /// Time at which a thread last noticed that another process had used the processor, by the
    /// monotonic clock; 0: never; runtime.
    pub shared_at: AtomicU64,
}

/// A progress point in the source. The first two words are `coz_counter_t` of `coz.h`.
#[repr(C, align(128))]
pub struct Counter {
    /// Visits.
    pub count: AtomicU64,
    /// Not used.
    pub backoff: AtomicU64,
    /// 0 free, 1 being named, 2 in use.
    pub state: AtomicU32,
    /// The kind of `coz.h`: 1 throughput, 2 begin, 3 end.
    pub kind: AtomicU32,
    /// For begins and ends: visits so far times each increase of [`Page::global`] in nanoseconds,
    /// summed; wraps around.
    pub delayed: AtomicU64,
    /// Name of the point.
    pub name: [AtomicU8; NAME],
}

/// A thread.
#[repr(C, align(128))]
pub struct Thread {
    /// Thread id, 0 while the slot is free.
    pub tid: AtomicU32,
    /// Index + 1 of the next free slot.
    pub next: AtomicU32,
    /// Descriptor of the thread's sampling event, -1: none.
    pub event: AtomicI32,
    /// 1 while the thread stands still: samples then belong to no code.
    pub standing: AtomicU32,
    /// Nesting depth of the waits that the thread is in.
    pub waits: AtomicU32,
    /// Delay that the thread has paid or been credited ([`Clock`]).
    pub local: AtomicU64,
    /// Start of the outermost wait, by the monotonic clock in nanoseconds.
    pub waits_since: AtomicU64,
    /// Nanoseconds slept beyond the delay owed.
    pub excess: AtomicU64,
    /// Start routine, until the thread starts.
    pub start: AtomicU64,
    /// Argument of the start routine.
    pub argument: AtomicU64,
    /// Lowest address of the stack. While `stack_high` is 0, any address in the stack: the
    /// controller then finds both ends.
    pub stack_low: AtomicU64,
    /// First address behind the program's part of the stack.
    pub stack_high: AtomicU64,
    /// Identity of the event behind the descriptor, to detect that the program closed the
    /// descriptor.
    pub event_id: AtomicU64,
    /// Time of the last look at the thread, by the monotonic clock in nanoseconds.
    pub looked: AtomicU64,
    /// CPU time of the thread at that look, in nanoseconds.
    pub ran: AtomicU64,
    /// Involuntary context switches at that look.
    pub preempted: AtomicU64,
    /// Voluntary context switches at that look.
    pub gave_up: AtomicU64,
    /// Process of the thread.
    pub pid: AtomicU32,
    /// 1 once the thread has had its first sample.
    pub sampled: AtomicU32,
    /// Pace at which the thread runs the selected line.
    pub pace: line_pace::LinePace,
    /// Number of locks of [`Page::selection`] that the thread holds.
    pub holds: AtomicU32,
    /// 1 if the program asked to block [`SIGNAL`] in this thread; the signal stays unblocked.
    pub blocks_signal: AtomicU32,
    /// The thread's waits for events outside of the program.
    pub outside: wait::ThreadWaits,
}

impl Thread {
    /// Assigns the slot to a thread that has had no sample yet. The caller sets [`Self::local`] and
    /// the stack before, and [`Self::pace`] separately.
    pub fn begin(&self, pid: u32, tid: u32) {
        for word in [
            &self.excess,
            &self.looked,
            &self.ran,
            &self.preempted,
            &self.gave_up,
        ] {
            word.store(0, Relaxed);
        }
        self.outside.clear();
        self.holds.store(0, Relaxed);
        self.waits.store(0, Relaxed);
        self.event.store(-1, Relaxed);
        self.pid.store(pid, Relaxed);
        self.tid.store(tid, Release);
    }
}

/// A place of code with its meaning; see [`Place`].
#[repr(C)]
pub struct PlaceEntry {
    /// The code address; 0: none.
    pub address: AtomicU64,
    /// [`Place`], encoded.
    pub meaning: AtomicU64,
    /// [`selection::Steps`] of the functions there, while a call sequence is selected.
    pub steps: AtomicU64,
}

/// The current experiment, in one word: a fragment and a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// The fragment that is virtually sped up.
    pub fragment: u32,
    /// True if the fragment's waits are sped up, not its running time.
    pub waiting: bool,
    /// Delay that every other thread owes for each sampling period spent in the fragment, in
    /// nanoseconds.
    pub delay_ns: u32,
}

/// Flag of [`Running::waiting`], in the upper half of the word.
const WAITING: u32 = 1 << 31;

impl Running {
    /// The value between experiments.
    pub const NONE: Self = Self {
        fragment: !WAITING,
        waiting: false,
        delay_ns: 0,
    };

    /// Packs the experiment into a word.
    pub fn pack(self) -> u64 {
        let kind = if self.waiting { WAITING } else { 0 };
        u64::from(self.fragment | kind) << 32 | u64::from(self.delay_ns)
    }

    /// Unpacks the word.
    pub fn unpack(word: u64) -> Self {
        let upper = (word >> 32) as u32;
        Self {
            fragment: upper & !WAITING,
            waiting: upper & WAITING != 0,
            delay_ns: word as u32,
        }
    }

    /// Returns the delay for `ns` nanoseconds in the fragment, at [`Self::delay_ns`] for each
    /// sampling period.
    pub fn delay_for(self, ns: u64, period_ns: u64) -> u64 {
        let delay = u128::from(self.delay_ns) * u128::from(ns) / u128::from(period_ns.max(1));
        u64::try_from(delay).unwrap_or(u64::MAX)
    }
}

impl Page {
    /// Returns the total delay of all epochs before `epoch`. The controller writes the sum for the
    /// next epoch while this one lasts, so that a reader of this and [`Self::global`] sees both
    /// change together.
    pub fn passed_before(&self, epoch: u16) -> &AtomicU64 {
        let [even, odd] = &self.passed.0;
        if epoch.is_multiple_of(2) { even } else { odd }
    }

    /// Begins a new epoch, in which no delay is owed yet, and returns the last epoch's delay in
    /// nanoseconds. Only the controller calls this.
    pub fn begin_epoch(&self, epoch: u16) -> u64 {
        let next = Clock { epoch, delay_ns: 0 }.pack();
        loop {
            let word = self.global.0.load(Acquire);
            let last = Clock::unpack(word);
            let passed = self.passed_before(last.epoch).load(Relaxed) + last.delay_ns;
            self.passed_before(epoch).store(passed, Release);
            let begun = (self.global.0).compare_exchange(word, next, AcqRel, Relaxed);
            if begun.is_ok() {
                return last.delay_ns;
            }
        }
    }

    /// Raises the delay that every thread owes to `ahead`, the count of one of them, if that is of
    /// the current epoch.
    pub fn raise_global(&self, ahead: Clock) {
        let mut global = Clock::unpack(self.global.0.load(Acquire));
        while ahead.epoch == global.epoch && ahead.delay_ns > global.delay_ns {
            let raised =
                (self.global.0).compare_exchange(global.pack(), ahead.pack(), AcqRel, Acquire);
            match raised {
                Ok(_) => return self.count_standstill(ahead.delay_ns - global.delay_ns),
                // Another thread was faster. If it raised the count as far, nothing is left to do.
                Err(now) => global = Clock::unpack(now),
            }
        }
    }

    /// Returns whether the experiment is about this fragment, or about the line of which the
    /// fragment is a copy.
    pub fn is_about(&self, running: Running, fragment: u32) -> bool {
        let whole = || {
            self.wholes
                .get(fragment as usize)?
                .load(Acquire)
                .checked_sub(1)
        };
        running.fragment == fragment || whole() == Some(running.fragment)
    }

    /// Records the line of which a fragment is a copy. Only the controller calls this.
    pub fn set_whole(&self, copy: u32, line: u32) {
        if let Some(whole) = self.wholes.get(copy as usize) {
            whole.store(line + 1, Release);
        }
    }

    /// Accounts for a standstill of all threads, which the time of visits in flight does not
    /// include. Begins and ends are summed separately and may wrap around: only differences are
    /// used.
    fn count_standstill(&self, ns: u64) {
        let named = |counter: &&Counter| counter.state.load(Relaxed) != 0;
        for counter in self.counters.iter().take_while(named) {
            if counter.kind.load(Relaxed) > 1 {
                let weighted = counter.count.load(Relaxed).wrapping_mul(ns);
                counter.delayed.fetch_add(weighted, Relaxed);
            }
        }
    }

    /// Takes a slot for a new thread; `None` if none is free.
    pub fn take_thread(&self) -> Option<&Thread> {
        loop {
            let head = self.free.0.load(Acquire);
            let index = (head as u32).checked_sub(1);
            let Some(thread) = index.and_then(|index| self.threads.get(index as usize)) else {
                break;
            };
            let next = (head >> 32).wrapping_add(1) << 32 | u64::from(thread.next.load(Relaxed));
            let taken = self.free.0.compare_exchange(head, next, AcqRel, Relaxed);
            if taken.is_ok() {
                return Some(thread);
            }
        }
        let fresh = |used: u32| ((used as usize) < THREADS).then_some(used + 1);
        let index = self.used.fetch_update(AcqRel, Relaxed, fresh).ok()?;
        self.threads.get(index as usize)
    }

    /// Returns the slot of a thread to the free list; `thread` is one of [`Self::threads`]. The
    /// upper half of the list's head counts changes: without the count, a head that was taken and
    /// returned meanwhile would look unchanged.
    pub fn give_back(&self, thread: &Thread) {
        let first = core::ptr::from_ref(&self.threads) as usize;
        let offset = (core::ptr::from_ref(thread) as usize).wrapping_sub(first);
        let index = offset / size_of::<Thread>();
        if index >= THREADS {
            return;
        }
        thread.tid.store(0, Release);
        loop {
            let head = self.free.0.load(Acquire);
            thread.next.store(head as u32, Relaxed);
            let new = (head >> 32).wrapping_add(1) << 32 | (index as u64 + 1);
            if (self.free.0.compare_exchange(head, new, AcqRel, Relaxed)).is_ok() {
                return;
            }
        }
    }

    /// Returns the meaning of the code at an address, if it is known.
    pub fn place(&self, address: u64) -> Option<Place> {
        let entry = self.place_entry(address)?;
        Place::unpack(entry.meaning.load(Relaxed))
    }

    /// Returns the meaning of the code at an address, if it is known, and the steps there of the
    /// call sequence's automaton.
    pub fn place_with_steps(&self, address: u64) -> Option<(Place, Steps)> {
        let entry = self.place_entry(address)?;
        let steps = Steps(entry.steps.load(Relaxed));
        Some((Place::unpack(entry.meaning.load(Relaxed))?, steps))
    }

    /// Returns whether the code at an address is known to busy-wait.
    pub fn is_spinning(&self, address: u64) -> bool {
        let entry = self.place_entry(address);
        entry.is_some_and(|entry| entry.meaning.load(Relaxed) & SPINNING != 0)
    }

    /// Records that the code at an address busy-waits. Only the controller calls this, for places
    /// that it has set.
    pub fn note_spinning(&self, address: u64) {
        if let Some(entry) = self.place_entry(address) {
            entry.meaning.fetch_or(SPINNING, Relaxed);
        }
    }

    fn place_entry(&self, address: u64) -> Option<&PlaceEntry> {
        let mut at = hash(address);
        for _ in 0..PROBES {
            let entry = self.places.get(at)?;
            match entry.address.load(Acquire) {
                0 => return None,
                found if found == address => return Some(entry),
                _ => at = (at + 1) & (PLACES - 1),
            }
        }
        None
    }

    /// Records the meaning of the code at an address; `false` if the table is full there. Only the
    /// controller calls this.
    pub fn set_place(&self, address: u64, place: Place, steps: Steps) -> bool {
        let mut at = hash(address);
        for _ in 0..PROBES {
            let Some(entry) = self.places.get(at) else {
                return false;
            };
            let found = entry.address.load(Relaxed);
            if found == 0 || found == address {
                entry.steps.store(steps.0, Relaxed);
                entry.meaning.store(place.pack(), Relaxed);
                entry.address.store(address, Release);
                return true;
            }
            at = (at + 1) & (PLACES - 1);
        }
        false
    }
}

/// Number of table slots that are probed for one address.
const PROBES: usize = 32;

fn hash(address: u64) -> usize {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - PLACES.ilog2())) as usize
}
