//! The memory that the runtime inside a target shares with its controller outside.
//!
//! One [`Page`], made by the controller and mapped by both. Everything in it is atomic: the target
//! may write anything anywhere at any time, and neither side trusts an index it finds there.
//! `docs/method/causal.md` is the protocol; the fields here say who writes them.
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

/// The required first word: the same of no two layouts.
pub const MAGIC: u64 = layout::LAYOUT;
/// The signal for each sample, SIGSTKFLT: Linux never sends it and programs do not use it, and unlike a real-time signal it
/// does not queue up where somebody blocks it.
pub const SIGNAL: i32 = 16;
/// The environment variable that names the descriptor of the memory.
pub const VARIABLE: &str = "VITALFEW_PAGE";

/// Threads that can be measured at a time.
pub const THREADS: usize = 16_384;
/// Fragments (lines or functions) that can be told apart.
pub const FRAGMENTS: usize = 65_536;
/// Places of code, a power of two; half of them are used at most.
pub const PLACES: usize = 1 << 18;
/// Processors that are told apart.
pub const CPUS: usize = 1024;
/// Progress points in the program's source.
pub const COUNTERS: usize = 256;
/// Bytes of a progress point's name, with a zero at its end.
pub const NAME: usize = 96;
/// Words of [`Page::lifeline`]: glibc's `pthread_mutex_t` has five on x86-64 and six on AArch64.
pub const LIFELINE: usize = 8;
/// Unknown places that can wait for the controller, a power of two.
pub const UNKNOWN: usize = 4096;

/// Values of [`Page::state`].
pub mod state {
    /// The target has not come to the runtime yet.
    pub const LAUNCHED: u32 = 0;
    /// The runtime waits for the controller.
    pub const READY: u32 = 1;
    /// The target runs and is measured.
    pub const RUNNING: u32 = 2;
    /// The runtime keeps out of everything.
    pub const OFF: u32 = 3;
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
    /// 1: the processors are sampled, each at its [`Cpu::period_ns`]; 0: every thread samples itself; controller.
    pub by_processor: AtomicU32,
    /// One of [`state`], a futex; both.
    pub state: AtomicU32,
    /// Process of the runtime; runtime.
    pub pid: AtomicU32,
    /// A futex that changes when the controller has something to look at; runtime.
    pub news: AtomicU32,
    /// The controller sleeps on `news`.
    pub waiting: AtomicU32,
    /// Libraries that were closed: their places may mean something else now; runtime.
    pub unloaded: AtomicU32,
    /// The error (errno) with which a thread could not be sampled, 0: none was refused; runtime.
    pub refused: AtomicI32,
    /// Threads for which there was no slot; runtime.
    pub unmeasured: AtomicU64,
    /// 1: the program reads the real clocks, also while it is delayed; controller.
    pub real_clocks: AtomicU32,
    /// Timers of the kernel that the program has set: they go on while it is delayed; runtime.
    pub kernel_timers: AtomicU64,

    /// A robust mutex of the C library that is shared between processes. The controller of a process that it has attached to
    /// holds it: who gets it knows that the controller has left, or is gone.
    pub lifeline: [AtomicU64; LIFELINE],

    /// 1: in this experiment delays are charged at the pace at which the line runs ([`line_pace::LinePace`]); 0: after each sample; controller.
    pub at_pace: AtomicU32,

    /// 1: in the last experiment the program's threads waited for processors that other processes had; controller.
    pub shared: AtomicU32,

    /// The set of code that experiments are about, if it is no single fragment; controller.
    pub selection: selection::Selection,

    /// The experiment that runs.
    pub experiment: Line<AtomicU64>,
    /// Start of the experiment, by the target's monotonic clock in nanoseconds; controller.
    pub experiment_since: AtomicU64,
    /// The delay that every thread owes ([`Clock`]); both.
    pub global: Line<AtomicU64>,
    /// Delays due in all epochs before this one, in nanoseconds: of even epochs and of odd ones; controller. See
    /// [`Page::passed_before`].
    pub passed: Line<[AtomicU64; 2]>,
    /// The latest that the program's monotonic clock has shown, in nanoseconds, since there are delays; runtime.
    pub shown: Line<AtomicU64>,
    /// Samples taken, whatever they hit; runtime.
    pub samples: Line<AtomicU64>,
    /// Samples whose place was not known yet; runtime.
    pub misses: AtomicU64,
    /// Samples with no fragment in scope in the call chain; runtime.
    pub outside: AtomicU64,
    /// Writes to pipes, event descriptors and sockets made by the program itself; runtime.
    pub internal_writes: AtomicU64,
    /// Samples in code that waits by looking, outside of waits that are known; runtime.
    pub spinning: Line<AtomicU64>,
    /// Waits that another thread of the program ended; runtime.
    pub meetings: Line<AtomicU64>,
    /// Payment of delays by all threads; runtime.
    pub standing: Line<StandingTime>,

    /// Head of the list of free slots: a tag above an index + 1.
    pub free: Line<AtomicU64>,
    /// Slots that have been in use so far.
    pub used: AtomicU32,
    /// Position of the next unknown place.
    pub unknown_head: Line<AtomicU64>,
    /// Code addresses that the controller is asked about, a ring; 0: none.
    pub unknown: [AtomicU64; UNKNOWN],
    /// Progress points; runtime, and the program itself.
    pub counters: [Counter; COUNTERS],
    /// Samples by fragment; runtime.
    pub fragments: [AtomicU64; FRAGMENTS],
    /// For each fragment that is one of several copies of a line, the number of the whole line, plus 1; controller.
    pub wholes: [AtomicU32; FRAGMENTS],
    /// Nanoseconds that each fragment waited for something outside of the program; runtime.
    pub waited: [AtomicU64; FRAGMENTS],
    /// The last system call in which it did ([`wait::ExternalWait::call_word`]); runtime.
    pub waited_in: [AtomicU32; FRAGMENTS],
    /// The fragment ([`Running::fragment`]) of the last experiment in which one system call took several samples, plus
    /// 1; runtime.
    pub long_calls_of: AtomicU32,
    /// The thread that runs on each processor; runtime.
    pub cpus: [Line<Cpu>; CPUS],
    /// Threads; runtime.
    pub threads: [Thread; THREADS],
    /// Resolved places of code; controller.
    pub places: [PlaceEntry; PLACES],
}

/// Something with cache lines of its own.
#[repr(C, align(128))]
pub struct Line<T>(pub T);

/// The time that threads stood still to pay delays, summed over them, in nanoseconds.
#[repr(C)]
pub struct StandingTime {
    /// All of it.
    pub total: AtomicU64,
    /// The part of it in which they had no processor although they wanted one. It costs the program nothing.
    pub without_cpu: AtomicU64,
}

/// A processor.
#[repr(C)]
pub struct Cpu {
    /// The thread of the target that ran there last, by id.
    pub owner: AtomicU32,
    /// The count that the thread had reached ([`Thread::local`]).
    pub clock: AtomicU64,
    /// Time between samples, in nanoseconds; controller.
    pub period_ns: AtomicU64,
    /// Time until which samples account for its work, by the monotonic clock; runtime.
    pub sampled: AtomicU64,
    /// Time at which a thread last found that another process had it meanwhile, by the monotonic clock; 0: never; runtime.
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
    /// Visits of begins and ends, summed over the nanoseconds by which [`Page::global`] grew, with
    /// each as they were then; wraps around.
    pub delayed: AtomicU64,
    /// Its name.
    pub name: [AtomicU8; NAME],
}

/// A thread.
#[repr(C, align(128))]
pub struct Thread {
    /// Its id, 0 while the slot is free.
    pub tid: AtomicU32,
    /// Index + 1 of the next free slot.
    pub next: AtomicU32,
    /// Descriptor of its sampling event, -1: none.
    pub event: AtomicI32,
    /// The thread stands still: a sample then is no work's.
    pub standing: AtomicU32,
    /// The thread waits for something: how deep.
    pub waits: AtomicU32,
    /// The delay it has paid or been credited ([`Clock`]).
    pub local: AtomicU64,
    /// Start of the outermost wait, by the monotonic clock in nanoseconds.
    pub waits_since: AtomicU64,
    /// Nanoseconds slept in excess of what was owed.
    pub excess: AtomicU64,
    /// Its start routine and argument, until it starts.
    pub start: AtomicU64,
    /// See `start`.
    pub argument: AtomicU64,
    /// Lowest address of its stack. An address in it, while `stack_high` is 0: the controller finds both.
    pub stack_low: AtomicU64,
    /// First address behind the part of its stack that is the program's.
    pub stack_high: AtomicU64,
    /// Identity of the event behind the descriptor, in case the program closes it.
    pub event_id: AtomicU64,
    /// State at the last look at the thread: the monotonic clock, its own CPU time (both in nanoseconds), its
    /// involuntary context switches, and its voluntary ones.
    pub looked: AtomicU64,
    /// See `looked`.
    pub ran: AtomicU64,
    /// See `looked`.
    pub preempted: AtomicU64,
    /// See `looked`.
    pub gave_up: AtomicU64,
    /// Process that it belongs to.
    pub pid: AtomicU32,
    /// The thread has had its first sample.
    pub sampled: AtomicU32,
    /// Pace at which it runs the line that is sped up.
    pub pace: line_pace::LinePace,
    /// Locks of [`Page::selection`] that it holds.
    pub holds: AtomicU32,
    /// The program has this thread block [`SIGNAL`], which it does not.
    pub blocks_signal: AtomicU32,
    /// Its waits for what is outside of the program.
    pub outside: wait::ThreadWaits,
}

impl Thread {
    /// Makes the slot a thread's that has had no sample yet. How far it is ([`Self::local`]) and its stack are set before, its
    /// [`Self::pace`] apart.
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

/// A place of code and what it means; see [`Place`].
#[repr(C)]
pub struct PlaceEntry {
    /// The code address; 0: none.
    pub address: AtomicU64,
    /// [`Place`], encoded.
    pub meaning: AtomicU64,
    /// [`selection::Steps`] of the functions there, while a call sequence is looked for.
    pub steps: AtomicU64,
}

/// The experiment that runs, in one word: a fragment and a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// The fragment that is virtually sped up.
    pub fragment: u32,
    /// True if its waits are sped up, not its running.
    pub waiting: bool,
    /// The delay that each sampling period in it makes all others owe, in nanoseconds.
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

    /// The word.
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

    /// Returns the delay for `ns` nanoseconds in the fragment, at one of [`Self::delay_ns`] for
    /// each sampling period.
    pub fn delay_for(self, ns: u64, period_ns: u64) -> u64 {
        let delay = u128::from(self.delay_ns) * u128::from(ns) / u128::from(period_ns.max(1));
        u64::try_from(delay).unwrap_or(u64::MAX)
    }
}

impl Page {
    /// Delays due before an epoch began. The sum for the next one is written while this one lasts, so that a reader of
    /// both this and [`Self::global`] sees them change together.
    pub fn passed_before(&self, epoch: u16) -> &AtomicU64 {
        let [even, odd] = &self.passed.0;
        if epoch.is_multiple_of(2) { even } else { odd }
    }

    /// Begins a new epoch, in which nothing is owed yet; what the last one came to, in nanoseconds. Only the controller
    /// does.
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

    /// Raises the delay that every thread owes to what one of them is ahead by, if that is of the experiment that runs.
    pub fn raise_global(&self, ahead: Clock) {
        let mut global = Clock::unpack(self.global.0.load(Acquire));
        while ahead.epoch == global.epoch && ahead.delay_ns > global.delay_ns {
            let raised =
                (self.global.0).compare_exchange(global.pack(), ahead.pack(), AcqRel, Acquire);
            match raised {
                Ok(_) => return self.count_standstill(ahead.delay_ns - global.delay_ns),
                // Another thread was faster. If it raised the count as far, nothing is left to raise.
                Err(now) => global = Clock::unpack(now),
            }
        }
    }

    /// Returns whether an experiment is about this fragment, or about the line that it is a copy of.
    pub fn is_about(&self, running: Running, fragment: u32) -> bool {
        let whole = || {
            self.wholes
                .get(fragment as usize)?
                .load(Acquire)
                .checked_sub(1)
        };
        running.fragment == fragment || whole() == Some(running.fragment)
    }

    /// Says what line a fragment is a copy of. Only the controller does.
    pub fn set_whole(&self, copy: u32, line: u32) {
        if let Some(whole) = self.wholes.get(copy as usize) {
            whole.store(line + 1, Release);
        }
    }

    /// Counts a standstill of all threads: the time of visits in flight does not include it. Begins and ends are summed
    /// up apart, and may wrap around: only differences are used.
    fn count_standstill(&self, ns: u64) {
        let named = |counter: &&Counter| counter.state.load(Relaxed) != 0;
        for counter in self.counters.iter().take_while(named) {
            if counter.kind.load(Relaxed) > 1 {
                let weighted = counter.count.load(Relaxed).wrapping_mul(ns);
                counter.delayed.fetch_add(weighted, Relaxed);
            }
        }
    }

    /// A slot for a new thread; `None` if there are too many.
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

    /// Gives the slot of a thread back; `thread` is one of [`Self::threads`]. The upper half of the list's head counts changes: without it
    /// a head that was taken and given back meanwhile would look unchanged.
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

    /// Returns what is known of the code at an address.
    pub fn place(&self, address: u64) -> Option<Place> {
        let entry = self.place_entry(address)?;
        Place::unpack(entry.meaning.load(Relaxed))
    }

    /// Returns what is known of the code at an address, and where it takes the automaton of a call sequence.
    pub fn place_with_steps(&self, address: u64) -> Option<(Place, Steps)> {
        let entry = self.place_entry(address)?;
        let steps = Steps(entry.steps.load(Relaxed));
        Some((Place::unpack(entry.meaning.load(Relaxed))?, steps))
    }

    /// Returns whether the known code at an address waits by looking again and again.
    pub fn is_spinning(&self, address: u64) -> bool {
        let entry = self.place_entry(address);
        entry.is_some_and(|entry| entry.meaning.load(Relaxed) & SPINNING != 0)
    }

    /// Notes that the code at an address waits so. Only the controller does, for places that it has set.
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

    /// Says what the code at an address is; `false` if there is no room. Only the controller does.
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

/// Slots that are looked at for one address.
const PROBES: usize = 32;

fn hash(address: u64) -> usize {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - PLACES.ilog2())) as usize
}
