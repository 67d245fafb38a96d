//! Schedule that lets one thread of the target run alone for a moment, again and again, at random.
//!
//! A thread of the controller chooses the time and the subject. It has the kernel interrupt all
//! other threads in user mode ([`Interrupts`]). The runtime's `trace/hold.rs` holds them until a
//! time in the shared memory. In placebos no thread is held. `docs/method/interference.md`
//! describes the use of the intervals.

use super::clock::TimePair;
use super::memory::TraceMemory;
use super::read_tsc;
use crate::choose::Dice;
use crate::memory::{AttachedMemory, wake_waiters};
use profile::{SoloInterval, SoloSchedule};
use runtime_abi::SIGNAL;
use runtime_abi::trace::{HELD, Hold, hold};
use rustc_hash::FxHashMap;
use sampler::{Interrupts, ThreadWait};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Mean length of the time alone, in microseconds. Single lengths differ from it by up to a
/// quarter.
const ALONE: f64 = 1000.0;
/// Lengths of the other phases, in units of the time alone: together before and after, between the
/// time alone and the time together after it, and between intervals.
const TOGETHER: f64 = 2.0;
const REJOINING: f64 = 0.4;
const GAP: f64 = 4.0;
/// Time limit until all other threads stand still, in microseconds. A thread is held for this and
/// the time alone at most, even if the controller dies.
const SETTLING: f64 = 6000.0;
/// Pauses between attempts to interrupt threads, in microseconds. The first pause is `SOON`, and
/// each further one is half as long again, up to `LATER`. During the time alone, threads that wake
/// up are interrupted every `LATER`.
const SOON: f64 = 20.0;
const LATER: f64 = 200.0;
/// Time after which the subject is checked for a wait for a held thread, in microseconds, and the
/// maximum number of attempts.
const HALT: f64 = 60.0;
const ATTEMPTS: u32 = 4;
/// One interval in this many is a placebo.
const PLACEBO: u64 = 4;
/// Time between two reads of the list of threads and their CPU time, in nanoseconds.
const LOOK_NS: u64 = 100_000_000;
/// Least CPU time of a busy thread: `BUSY` of a CPU, or `BUSY_BESIDE` of the busiest thread's time,
/// whichever is less.
const BUSY: f64 = 0.005;
const BUSY_BESIDE: f64 = 0.05;

/// State shared by the schedule and the reader of records.
#[derive(Default)]
pub(super) struct Turns {
    /// The subject of the current interval, and the interval's begin. The thread's later records
    /// are read after the interval, because the interval comes before them in the trace. The id is
    /// 0 if there is none.
    subject: (u32, u64),
    /// Finished intervals, by thread.
    done: Vec<(u32, SoloInterval)>,
    held: Vec<ThreadWait>,
    schedule: SoloSchedule,
}

impl Turns {
    /// Returns the finished intervals of a thread, and the time up to which its records may be
    /// read.
    pub fn take_done(&mut self, tid: u32) -> (Vec<SoloInterval>, u64) {
        let done = self.done.extract_if(.., |(of, _)| *of == tid);
        let done = done.map(|(_, interval)| interval).collect();
        let until = match self.subject {
            (subject, since) if subject == tid => since,
            _ => read_tsc(),
        };
        (done, until)
    }

    /// Returns the times during which threads were held.
    pub fn take_held(&mut self) -> Vec<ThreadWait> {
        std::mem::take(&mut self.held)
    }
}

/// Handle of the thread that runs the schedule.
#[derive(Default)]
pub(super) struct Solo {
    turns: Arc<Mutex<Turns>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Solo {
    /// Starts the schedule for a process.
    pub fn start(shared: &TraceMemory, pid: u32) -> Self {
        let mut this = Self::default();
        let (turns, over) = (Arc::clone(&this.turns), Arc::clone(&this.over));
        let begun = shared.another_descriptor().and_then(|file| {
            let schedule = move || {
                let ended = TraceMemory::in_file(file)
                    .map_err(|error| error.to_string())
                    .and_then(|memory| Schedule::new(&memory, pid, &turns, &over).run());
                lock(&turns).schedule.refused = ended.err();
            };
            let thread = std::thread::Builder::new().name("solo".into());
            thread
                .spawn(schedule)
                .map_err(|source| crate::Error::System {
                    what: "starting a thread".into(),
                    source,
                })
        });
        match begun {
            Ok(thread) => this.thread = Some(thread),
            Err(error) => this.turns().schedule.refused = Some(error.to_string()),
        }
        this
    }

    /// Locks and returns the shared state.
    pub fn turns(&self) -> MutexGuard<'_, Turns> {
        lock(&self.turns)
    }

    /// Returns whether an interval is under way.
    pub fn is_under_way(&self) -> bool {
        self.turns().subject.0 != 0
    }

    /// Stops the schedule. Returns its counts.
    pub fn stop(&mut self) -> SoloSchedule {
        self.over.store(true, Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.turns().schedule.clone()
    }
}

impl Drop for Solo {
    fn drop(&mut self) {
        self.stop();
    }
}

fn lock(turns: &Mutex<Turns>) -> MutexGuard<'_, Turns> {
    turns.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread of the target.
#[derive(Default)]
struct Watched {
    ran_ns: u64,
    /// CPU time since the previous read.
    lately_ns: u64,
    is_busy: bool,
    /// Index of the thread's slot in the shared memory.
    slot: Option<usize>,
}

/// Activity of a thread, as the kernel reports it.
enum Doing {
    /// It runs, or is ready to run.
    Runs,
    /// It sleeps in a system call that a signal might end early.
    Sleeps,
    /// It waits for another thread. The system call restarts by itself after a signal.
    Waits,
}

/// Result of an attempt to hold all threads but one.
enum Held {
    /// All others stood still in this time.
    Alone((u64, u64)),
    /// Some others did not stand still in time.
    GivenUp,
    /// All others stood still, but the subject waited for one of them.
    Halted,
}

struct Schedule<'a> {
    memory: &'a TraceMemory,
    pid: u32,
    turns: &'a Mutex<Turns>,
    over: &'a AtomicBool,
    dice: Dice,
    threads: FxHashMap<u32, Watched>,
    looked: u64,
    number: u32,
    ticks_per_us: f64,
    /// CPUs that this thread may use.
    usable: libc::cpu_set_t,
}

impl<'a> Schedule<'a> {
    fn new(
        memory: &'a TraceMemory,
        pid: u32,
        turns: &'a Mutex<Turns>,
        over: &'a AtomicBool,
    ) -> Self {
        Self {
            memory,
            pid,
            turns,
            over,
            dice: Dice::new(read_tsc()),
            threads: FxHashMap::default(),
            looked: 0,
            number: 0,
            ticks_per_us: 0.0,
            usable: usable_cpus(),
        }
    }

    /// Lets threads run alone until the schedule is stopped. The error is the reason why that is
    /// impossible.
    fn run(&mut self) -> Result<(), String> {
        let start = TimePair::read_closest();
        while self.handler() == 0 {
            if self.is_over() {
                return Ok(());
            }
            sleep_us(1000.0);
        }
        let interrupts = Interrupts::of_process(self.pid, self.handler());
        let interrupts = interrupts.map_err(|error| error.to_string())?;
        be_urgent();
        sleep_us(10_000.0);
        let now = TimePair::read_closest();
        self.ticks_per_us =
            (now.ticks - start.ticks) as f64 * 1000.0 / (now.ns - start.ns).max(1) as f64;
        let rate = self.ticks_per_us as u32;
        self.memory.hold.ticks_per_us.store(rate.max(1), Relaxed);
        while !self.is_over() {
            let gap = ALONE * GAP * self.dice.between(0.5, 1.5);
            sleep_us(gap);
            self.look_at_threads();
            let busy: Vec<u32> = (self.threads.iter())
                .filter(|(_, thread)| thread.is_busy)
                .map(|(tid, _)| *tid)
                .collect();
            let mut turns = lock(self.turns);
            if busy.len() < 2 {
                turns.schedule.one_busy += 1;
                continue;
            }
            turns.schedule.several_busy += 1;
            // A thread that never called a traced function has no records.
            let traced = busy.iter().filter(|tid| self.threads[*tid].slot.is_some());
            let traced: Vec<u32> = traced.copied().collect();
            let at = self.dice.between(0.0, traced.len() as f64) as usize;
            let Some(&subject) = traced.get(at) else {
                continue;
            };
            turns.subject = (subject, read_tsc());
            drop(turns);
            let interval = self.let_run_alone(&interrupts, subject, &busy);
            let mut turns = lock(self.turns);
            turns.subject = (0, 0);
            match interval {
                Some(interval) => turns.done.push((subject, interval)),
                None => turns.schedule.given_up += 1,
            }
            drop(turns);
            // The reader has waited for the end of the interval.
            self.memory.news.fetch_add(1, Release);
            wake_waiters(&self.memory.news);
        }
        Ok(())
    }

    fn handler(&self) -> u64 {
        self.memory.hold.handler.load(Acquire)
    }

    fn is_over(&self) -> bool {
        self.over.load(Acquire)
    }

    /// Updates the list of threads, and which of them were busy since the last update.
    fn look_at_threads(&mut self) {
        let now = sampler::monotonic_ns();
        let elapsed = now - self.looked;
        if elapsed < LOOK_NS {
            return;
        }
        let is_first = self.looked == 0;
        self.looked = now;
        let guard = self.memory.guard.load(Relaxed);
        let used = (self.memory.used.load(Acquire) as usize).min(self.memory.threads.len());
        let slots = self.memory.threads.iter().take(used).enumerate();
        let slots: FxHashMap<u32, usize> = slots
            .filter(|(_, slot)| slot.state.load(Relaxed) == 1)
            .map(|(at, slot)| (slot.tid.load(Relaxed), at))
            .collect();
        let before = std::mem::take(&mut self.threads);
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid));
        for task in tasks.into_iter().flatten().flatten() {
            let name = task.file_name();
            let Some(tid) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let ran = std::fs::read_to_string(task.path().join("schedstat")).ok();
            let ran = ran.and_then(|text| text.split(' ').next()?.parse().ok());
            let Some(ran_ns) = ran.filter(|_| tid != guard) else {
                continue;
            };
            let known = before.get(&tid).map_or(0, |thread: &Watched| thread.ran_ns);
            let watched = Watched {
                ran_ns,
                lately_ns: if is_first {
                    0
                } else {
                    ran_ns.saturating_sub(known)
                },
                slot: slots.get(&tid).copied(),
                ..Watched::default()
            };
            self.threads.insert(tid, watched);
        }
        let most = self.threads.values().map(|thread| thread.lately_ns).max();
        let beside = BUSY_BESIDE * most.unwrap_or(0) as f64;
        let least = (BUSY * elapsed.min(LOOK_NS * 2) as f64).min(beside);
        for thread in self.threads.values_mut() {
            thread.is_busy = thread.lately_ns > 0 && thread.lately_ns as f64 >= least;
        }
    }

    /// Compares a thread alone with itself before and after. Returns `None` if the others did not
    /// stand still.
    fn let_run_alone(
        &mut self,
        interrupts: &Interrupts,
        subject: u32,
        busy: &[u32],
    ) -> Option<SoloInterval> {
        let placebo = self.dice.is_one_of(PLACEBO);
        let length = ALONE * self.dice.between(0.75, 1.25);
        let found = interrupts.interrupt_threads(subject, None).ok()?;
        let cpu = self.keep_off_subject(&found, subject, None);
        let before = self.wait_together(TOGETHER * length);
        let others: Vec<u32> = (busy.iter().copied())
            .filter(|tid| *tid != subject)
            .collect();
        // A placebo must not interrupt threads either. If it waited until locks are free, it would
        // begin at a moment that favours the subject.
        let alone = if placebo {
            Some(self.wait_together(length))
        } else {
            self.hold_others(interrupts, (subject, cpu), &others, length)
        };
        sleep_us(REJOINING * length);
        let after = self.wait_together(TOGETHER * length);
        Some(SoloInterval {
            before,
            alone: alone?,
            after,
            placebo,
            busy: busy.len() as u32,
        })
    }

    /// Holds all threads but one. Returns `None` if they did not stand still. A thread may be held
    /// with a lock that hooks do not see, and then the subject halts. A new attempt succeeds once
    /// another thread has the lock.
    fn hold_others(
        &mut self,
        interrupts: &Interrupts,
        subject: (u32, Option<u32>),
        others: &[u32],
        length: f64,
    ) -> Option<(u64, u64)> {
        for attempt in 1..=ATTEMPTS {
            match self.hold(interrupts, subject, others, length, attempt == ATTEMPTS) {
                Held::Halted => sleep_us(HALT * self.dice.between(0.5, 1.5)),
                Held::Alone(interval) => return Some(interval),
                Held::GivenUp => return None,
            }
        }
        None
    }

    /// Waits while all threads run. It wakes as often as during the time alone, because that takes
    /// the subject's time too. Returns the begin and the end.
    fn wait_together(&self, us: f64) -> (u64, u64) {
        let start = read_tsc();
        let end = start + self.ticks(us);
        while self.us_until(end) > 0.0 {
            sleep_us(self.us_until(end).min(LATER));
        }
        (start, read_tsc())
    }

    /// Holds all threads but one for `length` microseconds. The last attempt continues even if the
    /// subject waits for a held thread.
    fn hold(
        &mut self,
        interrupts: &Interrupts,
        (subject, cpu): (u32, Option<u32>),
        others: &[u32],
        length: f64,
        is_last: bool,
    ) -> Held {
        self.number = self.number.wrapping_add(1).max(1);
        let (number, hold) = (self.number, &self.memory.hold);
        let spins = others.len() < std::thread::available_parallelism().map_or(1, usize::from);
        let manner = if spins { hold::SPIN } else { hold::SLEEP };
        self.enter_threads(subject, others);
        let deadline = read_tsc() + self.ticks(SETTLING);
        hold.subject.store(subject, Relaxed);
        hold.manner.store(manner, Relaxed);
        hold.left.store(0, Relaxed);
        hold.until.store(deadline, Relaxed);
        hold.number.store(number, Release);
        self.take_cpu_of_subject(cpu);
        let stand = self.settle(interrupts, subject, others, deadline);
        use_cpus(&self.usable);
        let held = match stand {
            None => Held::GivenUp,
            Some(()) => self.stay_away(interrupts, subject, length, is_last),
        };
        hold.number.store(0, Release);
        if manner == hold::SPIN {
            self.note_held(number);
        }
        held
    }

    /// Leaves the subject alone for `length` microseconds, while the others stand still.
    fn stay_away(&self, interrupts: &Interrupts, subject: u32, length: f64, is_last: bool) -> Held {
        let hold = &self.memory.hold;
        let found = interrupts.interrupt_threads(subject, None);
        let cpu = self.keep_off_subject(&found.unwrap_or_default(), subject, None);
        let since = read_tsc();
        let until = since + self.ticks(length);
        hold.until.store(until, Relaxed);
        hold.settled.store(self.number, Release);
        let mut looks = !is_last;
        while self.us_until(until) > 0.0 {
            let pause = if looks { HALT } else { LATER };
            sleep_us(self.us_until(until).min(pause));
            if looks && matches!(what_it_does(self.pid, subject), Doing::Waits) {
                return Held::Halted;
            }
            looks = false;
            if self.us_until(until) > 0.0 {
                // Threads may have woken up in the meantime.
                let _ = interrupts.interrupt_threads(subject, cpu);
            }
        }
        match hold.left.load(Relaxed) {
            left if left > since => Held::Alone((since, left.min(until))),
            _ => Held::Alone((since, until)),
        }
    }

    /// Enters the threads to hold. The busy ones, whose standstill is awaited, come first.
    fn enter_threads(&self, subject: u32, others: &[u32]) {
        let rest = self.threads.keys();
        let rest = rest.filter(|tid| **tid != subject && !others.contains(tid));
        let entries = self.memory.hold.threads.iter();
        let mut count = 0;
        for (entry, tid) in entries.zip(others.iter().chain(rest)).take(HELD) {
            entry.tid.store(*tid, Relaxed);
            entry.stood.store(0, Relaxed);
            entry.asked.store(0, Relaxed);
            count += 1;
        }
        self.memory.hold.count.store(count, Release);
    }

    /// Interrupts the other threads until all stand still.
    fn settle(
        &self,
        interrupts: &Interrupts,
        subject: u32,
        others: &[u32],
        deadline: u64,
    ) -> Option<()> {
        let hold = &self.memory.hold;
        let mut woken = vec![false; others.len()];
        let mut turns = vec![None; others.len()];
        let mut pause = SOON;
        loop {
            let found = interrupts.interrupt_threads(subject, None).ok()?;
            let entries = others.iter().zip(&hold.threads);
            let mut all = true;
            for ((tid, entry), (woken, turns)) in entries.zip(woken.iter_mut().zip(&mut turns)) {
                let before = turns.take();
                if entry.stood.load(Acquire) == self.number {
                    continue;
                }
                all &= match what_it_does(self.pid, *tid) {
                    // A sleeping thread that holds a lock must release it first.
                    Doing::Sleeps => self.is_free(*tid),
                    Doing::Waits => {
                        if !std::mem::replace(woken, true) {
                            self.interrupt_sleeper(*tid);
                        }
                        // A thread that was asked waits for a lock while it holds another one.
                        entry.asked.load(Relaxed) == self.number
                    }
                    // A thread that waits for a CPU stands still as well. It is interrupted when it
                    // gets one.
                    Doing::Runs if self.is_free(*tid) => {
                        *turns = count_turns(self.pid, *tid);
                        turns.is_some()
                            && *turns == before
                            && !found.iter().any(|(running, _)| running == tid)
                    }
                    Doing::Runs => false,
                };
            }
            if all {
                return Some(());
            }
            if read_tsc() >= deadline || self.is_over() {
                return None;
            }
            sleep_us(pause);
            pause = (1.5 * pause).min(LATER);
        }
    }

    /// Moves this thread away from the subject's CPU, if another CPU is usable. Our CPU time would
    /// otherwise be taken from the subject alone. Returns the CPU on which the subject was found,
    /// else `before`.
    fn keep_off_subject(
        &self,
        found: &[(u32, u32)],
        subject: u32,
        before: Option<u32>,
    ) -> Option<u32> {
        let on = found.iter().find(|(tid, _)| *tid == subject);
        let on = on.map(|(_, cpu)| *cpu);
        if let Some(cpu) = on.filter(|_| on != before) {
            let mut rest = self.usable;
            // SAFETY: within the set.
            unsafe { libc::CPU_CLR(cpu as usize, &mut rest) };
            use_cpus(&rest);
        }
        on.or(before)
    }

    /// Moves this thread to the subject's CPU. On another CPU it would displace a thread, which
    /// could then not be interrupted.
    fn take_cpu_of_subject(&self, cpu: Option<u32>) {
        if let Some(cpu) = cpu {
            // SAFETY: zeros are a set; the CPU is one that the kernel has.
            let only = unsafe {
                let mut only: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(cpu as usize, &mut only);
                only
            };
            use_cpus(&only);
        }
    }

    /// Returns whether a thread holds no known lock.
    fn is_free(&self, tid: u32) -> bool {
        let slot = self.threads.get(&tid).and_then(|thread| thread.slot);
        let slot = slot.and_then(|slot| self.memory.threads.get(slot));
        slot.is_none_or(|slot| slot.tid.load(Relaxed) != tid || slot.locks.load(Relaxed) == 0)
    }

    fn interrupt_sleeper(&self, tid: u32) {
        // SAFETY: sends a signal that the process handles.
        unsafe { libc::syscall(libc::SYS_tgkill, self.pid, tid, SIGNAL) };
    }

    /// Records the times during which threads were held as sleeps that they asked for, so that
    /// these times do not count. Threads that are held asleep need no such record: the scheduler
    /// sees them sleep.
    fn note_held(&self, number: u32) {
        let hold: &Hold = &self.memory.hold;
        let pair = TimePair::read_closest();
        let ns = |ticks: u64| {
            let ago = pair.ticks.saturating_sub(ticks) as f64 * 1000.0 / self.ticks_per_us;
            pair.ns.saturating_sub(ago as u64)
        };
        let mut held = Vec::new();
        let used = hold.count.load(Relaxed) as usize;
        for entry in hold.threads.iter().take(used.min(HELD)) {
            if entry.stood.load(Acquire) == number {
                let (since, until) = (entry.since.load(Relaxed), entry.until.load(Acquire));
                held.push(ThreadWait {
                    tid: entry.tid.load(Relaxed),
                    start_ns: ns(since),
                    end_ns: if until > since { ns(until) } else { pair.ns },
                    queued_ns: 0,
                    taken_ns: 0,
                    held_ns: 0,
                    preempted: false,
                    system_call: Some(libc::SYS_clock_nanosleep as u32),
                    waker: None,
                    waker_block: None,
                });
            }
        }
        lock(self.turns).held.extend(held);
    }

    fn us_until(&self, ticks: u64) -> f64 {
        ticks.saturating_sub(read_tsc()) as f64 / self.ticks_per_us
    }

    fn ticks(&self, us: f64) -> u64 {
        (us * self.ticks_per_us) as u64
    }
}

/// Returns the activity of a thread, as the kernel reports it.
fn what_it_does(pid: u32, tid: u32) -> Doing {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall"));
    text.map_or(Doing::Sleeps, |text| parse_system_call(&text))
}

/// Returns the number of times that a thread has got a CPU.
fn count_turns(pid: u32, tid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    text.split_ascii_whitespace().nth(2)?.parse().ok()
}

fn parse_system_call(text: &str) -> Doing {
    let mut words = text.split_ascii_whitespace();
    let Some(Ok(number)) = words.next().map(str::parse::<i64>) else {
        return Doing::Runs;
    };
    let mut arguments = words.map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16));
    let operation = arguments.nth(1).and_then(Result::ok);
    let timeout = arguments.nth(1).and_then(Result::ok);
    let operation = operation.map(|operation| operation as i32 & libc::FUTEX_CMD_MASK);
    let waits = matches!(
        operation,
        Some(libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET | libc::FUTEX_LOCK_PI)
    );
    if number == libc::SYS_futex && waits && timeout == Some(0) {
        Doing::Waits
    } else {
        Doing::Sleeps
    }
}

fn use_cpus(cpus: &libc::cpu_set_t) {
    // SAFETY: the set is ours, and the kernel reads it during the call; one without a CPU that may
    // be used it refuses.
    unsafe { libc::sched_setaffinity(0, size_of_val(cpus), cpus) };
}

/// Returns the CPUs that this thread may use.
fn usable_cpus() -> libc::cpu_set_t {
    // SAFETY: zeros are a set; the kernel writes it during the call.
    unsafe {
        let mut usable: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&usable), &raw mut usable);
        usable
    }
}

/// Requests real-time scheduling, if permitted, and exact timers.
fn be_urgent() {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: of this thread; the parameter lives during the call.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        libc::sched_setscheduler(0, libc::SCHED_RR, &raw const priority);
    }
}

fn sleep_us(us: f64) {
    std::thread::sleep(Duration::from_nanos((us.max(0.0) * 1000.0) as u64));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_waits_without_an_end_are_interrupted() {
        let is = |text: &str| match parse_system_call(text) {
            Doing::Runs => "runs",
            Doing::Sleeps => "sleeps",
            Doing::Waits => "waits",
        };
        assert_eq!(is("running\n"), "runs");
        assert_eq!(
            is("202 0x7f00 0x80 0x2 0x0 0x0 0x0 0x7ffd 0x7f01\n"),
            "waits"
        );
        assert_eq!(
            is("202 0x7f00 0x189 0x2 0x0 0x0 0xffffffff 0x7ffd 0x7f01\n"),
            "waits"
        );
        assert_eq!(
            is("202 0x7f00 0x189 0x2 0x7ffe 0x0 0xffffffff 0x7ffd 0x7f01\n"),
            "sleeps"
        );
        assert_eq!(
            is("202 0x7f00 0x81 0x1 0x0 0x0 0x0 0x7ffd 0x7f01\n"),
            "sleeps"
        );
        assert_eq!(
            is("232 0x4 0x7f00 0x40 0xffffffff 0x0 0x8 0x7ffd 0x7f01\n"),
            "sleeps"
        );
        assert_eq!(is("-1 0x7ffd 0x7f01\n"), "sleeps");
    }
}
