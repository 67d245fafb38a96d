//! Waits for outside events: the waiting threads and system calls, and the delays for long waits
//! while they last.

use crate::code::TargetCode;
use runtime_abi::wait::ExternalWait;
use runtime_abi::{Clock, Page, Running};
use rustc_hash::FxHashMap;
use sampler::{ExternalWaits, PendingCall};
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// The time between two charges for lasting waits: a quarter of a sampling period. Neither tuned
/// nor measured.
const CHARGE_EVERY: Duration = Duration::from_micros(250);
/// The inverse of the fraction of time that looking for waits may take: with thousands of threads
/// looks are rarer.
const LEAST_PART: u32 = 20;

/// System calls that wait, by number, with the name; `true`: they wait for work, which faster code
/// would not bring.
const CALLS: &[(i64, &str, bool)] = &[
    (libc::SYS_read, "read", false),
    (libc::SYS_readv, "readv", false),
    (libc::SYS_pread64, "pread64", false),
    (libc::SYS_preadv, "preadv", false),
    (libc::SYS_preadv2, "preadv2", false),
    (libc::SYS_write, "write", false),
    (libc::SYS_writev, "writev", false),
    (libc::SYS_pwrite64, "pwrite64", false),
    (libc::SYS_pwritev, "pwritev", false),
    (libc::SYS_pwritev2, "pwritev2", false),
    (libc::SYS_fsync, "fsync", false),
    (libc::SYS_fdatasync, "fdatasync", false),
    (libc::SYS_sync, "sync", false),
    (libc::SYS_syncfs, "syncfs", false),
    (libc::SYS_sync_file_range, "sync_file_range", false),
    (libc::SYS_msync, "msync", false),
    (libc::SYS_openat, "openat", false),
    (libc::SYS_close, "close", false),
    (libc::SYS_renameat2, "renameat2", false),
    (libc::SYS_unlinkat, "unlinkat", false),
    (libc::SYS_ftruncate, "ftruncate", false),
    (libc::SYS_fallocate, "fallocate", false),
    (libc::SYS_getdents64, "getdents64", false),
    (libc::SYS_sendto, "sendto", false),
    (libc::SYS_sendmsg, "sendmsg", false),
    (libc::SYS_sendfile, "sendfile", false),
    (libc::SYS_splice, "splice", false),
    (libc::SYS_copy_file_range, "copy_file_range", false),
    (libc::SYS_connect, "connect", false),
    (libc::SYS_flock, "flock", false),
    (libc::SYS_fcntl, "fcntl", false),
    (libc::SYS_ioctl, "ioctl", false),
    (libc::SYS_futex, "futex", false),
    (libc::SYS_nanosleep, "nanosleep", false),
    (libc::SYS_clock_nanosleep, "clock_nanosleep", false),
    (libc::SYS_wait4, "wait4", false),
    (libc::SYS_waitid, "waitid", false),
    (libc::SYS_io_getevents, "io_getevents", false),
    (libc::SYS_io_uring_enter, "io_uring_enter", false),
    (libc::SYS_mmap, "mmap", false),
    (libc::SYS_munmap, "munmap", false),
    (libc::SYS_semtimedop, "semtimedop", false),
    (libc::SYS_msgsnd, "msgsnd", false),
    (libc::SYS_msgrcv, "msgrcv", true),
    (libc::SYS_recvfrom, "recvfrom", true),
    (libc::SYS_recvmsg, "recvmsg", true),
    (libc::SYS_recvmmsg, "recvmmsg", true),
    (libc::SYS_accept, "accept", true),
    (libc::SYS_accept4, "accept4", true),
    (libc::SYS_ppoll, "ppoll", true),
    (libc::SYS_pselect6, "pselect6", true),
    (libc::SYS_epoll_pwait, "epoll_pwait", true),
    (libc::SYS_epoll_pwait2, "epoll_pwait2", true),
    (libc::SYS_rt_sigtimedwait, "rt_sigtimedwait", true),
    (libc::SYS_rt_sigsuspend, "rt_sigsuspend", true),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, "open", false),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_unlink, "unlink", false),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rename, "rename", false),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_poll, "poll", true),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_select, "select", true),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_epoll_wait, "epoll_wait", true),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_pause, "pause", true),
];

/// Returns the numbers of the calls that wait for work.
fn work_calls() -> impl Iterator<Item = u32> {
    let for_work = CALLS.iter().filter(|(.., for_work)| *for_work);
    for_work.filter_map(|(call, ..)| u32::try_from(*call).ok())
}

/// A system call that a fragment waited in.
pub(crate) struct WaitCall {
    /// Its name, or its number.
    pub name: String,
    /// True if the wait lasts until a peer requests work.
    pub for_work: bool,
}

/// Returns the call in which a fragment or one of its copies waited; `None`: it never waited.
pub(crate) fn wait_call(page: &Page, code: &TargetCode, fragment: u32) -> Option<WaitCall> {
    let mut numbers = code.fragments().numbers_of(fragment);
    numbers.find_map(|number| own_wait_call(page, number as usize))
}

fn own_wait_call(page: &Page, fragment: usize) -> Option<WaitCall> {
    let word = page.waited_in.get(fragment)?.load(Relaxed);
    let (number, from_peer) = ExternalWait::of_call_word(word)?;
    let known = CALLS.iter().find(|(call, ..)| *call == i64::from(number));
    Some(WaitCall {
        name: known.map_or_else(|| format!("system call {number}"), |it| it.1.to_owned()),
        for_work: from_peer || known.is_some_and(|it| it.2),
    })
}

/// Watches the waits of a program, and charges for them.
pub(crate) struct WaitWatch {
    pub waits: Rc<ExternalWaits>,
    /// True if waits are sped up too, not only running in the kernel.
    pub speeds_up: bool,
    /// Start of the wait or call and the delay charged for it, in nanoseconds, by thread.
    charged: FxHashMap<u32, (u64, u64)>,
    /// Index of each thread's slot.
    slots: FxHashMap<u32, usize>,
    /// The experiment of these charges.
    epoch: u16,
    /// Start of that experiment, on the kernel's clock.
    since: u64,
    /// Duration of a look.
    look: Duration,
}

impl WaitWatch {
    /// Starts watching the program whose runtime (or, if `hookless`, whose handler) shares this
    /// memory, and reports waits to it if they are to be sped up; `None` where the kernel cannot
    /// report system calls.
    pub fn start(page: &Page, hookless: bool, speeds_up: bool) -> Option<Self> {
        let handler = page.handler.load(Relaxed);
        if handler == 0 || !cfg!(target_arch = "x86_64") {
            return None;
        }
        Some(Self {
            waits: Rc::new(ExternalWaits::watch(handler, hookless, speeds_up, work_calls()).ok()?),
            speeds_up,
            charged: FxHashMap::default(),
            slots: FxHashMap::default(),
            epoch: 0,
            since: 0,
            look: Duration::ZERO,
        })
    }

    /// Returns how long to rest between two charges; `None`: this experiment charges nothing.
    pub fn charge_every(&self, page: &Page) -> Option<Duration> {
        let running = Running::unpack(page.experiment.0.load(Acquire));
        // A call that is sampled once is charged then.
        let long_calls = page.long_calls_of.load(Relaxed) == running.fragment + 1;
        // A baseline charges nothing, but the looks take time, which has to be on both sides of a
        // comparison.
        (running.waiting || long_calls).then(|| CHARGE_EVERY.max(self.look * LEAST_PART))
    }

    /// Charges for the waits or system calls in progress, up to now.
    pub fn charge_pending(&mut self, page: &Page) {
        let begin = Instant::now();
        let running = Running::unpack(page.experiment.0.load(Acquire));
        let Clock { epoch, .. } = Clock::unpack(page.global.0.load(Acquire));
        if epoch != self.epoch {
            self.epoch = epoch;
            let ahead = sampler::clock_ahead_of(page.pid.load(Relaxed));
            let since = page.experiment_since.load(Relaxed);
            self.since = since.wrapping_add_signed(ahead.wrapping_neg());
            self.charged.clear();
            self.slots = threads_by_id(page);
        }
        let period = page.period_ns.load(Relaxed).max(1);
        let now = sampler::monotonic_ns();
        for call in self.waits.pending() {
            let slot = self.slots.get(&call.tid);
            let Some(thread) = slot.and_then(|at| page.threads.get(*at)) else {
                continue;
            };
            let fragment = thread.outside.fragment_at(call.pc, call.sp);
            let is_meant = fragment.is_some_and(|fragment| page.is_about(running, fragment));
            if thread.tid.load(Relaxed) != call.tid || !is_meant {
                continue;
            }
            let Some((begun, ns)) = time_of(&call, running, [self.since, now], period) else {
                continue;
            };
            let charged = self.charged.entry(call.tid).or_default();
            if charged.0 != begun {
                *charged = (begun, 0);
            }
            let more = (running.delay_for(ns, period)).saturating_sub(charged.1);
            charged.1 += more;
            thread.outside.charge_early(epoch, more);
            let local = Clock::unpack(thread.local.load(Acquire));
            let delay_ns = local.delay_in(epoch) + thread.outside.pending_charge(epoch);
            page.raise_global(Clock { epoch, delay_ns });
        }
        self.look = begin.elapsed();
    }
}

/// Returns the start of the part of a lasting system call that the experiment is about, and its
/// nanoseconds between two times.
fn time_of(
    call: &PendingCall,
    running: Running,
    [since, now]: [u64; 2],
    period: u64,
) -> Option<(u64, u64)> {
    if running.waiting {
        let begun = call.waits_since_ns?;
        return Some((begun, now.saturating_sub(begun.max(since))));
    }
    // The first sample stands for the time before it.
    let begun = call.ran_since_ns.saturating_sub(period);
    let ran = u64::from(call.ticks) * period;
    (call.ticks > 0).then(|| (begun, ran.min(now.saturating_sub(begun.max(since)))))
}

fn threads_by_id(page: &Page) -> FxHashMap<u32, usize> {
    let used = page.used.load(Acquire) as usize;
    let threads = page.threads.iter().take(used).enumerate();
    let living = threads.map(|(at, thread)| (thread.tid.load(Relaxed), at));
    living.filter(|(tid, _)| *tid != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::CausalMemory;

    #[test]
    fn calls_have_names_and_those_for_work_are_known() {
        let memory = CausalMemory::new().unwrap();
        let waited = |call: i64, from_peer| {
            let wait = ExternalWait {
                ns: 1,
                call: call as u32,
                from_peer,
            };
            memory.waited_in[7].store(wait.call_word(), Relaxed);
            let found = own_wait_call(&memory, 7).unwrap();
            (found.name, found.for_work)
        };
        assert_eq!(waited(libc::SYS_fsync, false), ("fsync".into(), false));
        assert_eq!(waited(libc::SYS_read, false), ("read".into(), false));
        assert_eq!(waited(libc::SYS_read, true), ("read".into(), true));
        assert_eq!(waited(libc::SYS_accept4, false), ("accept4".into(), true));
        assert_eq!(waited(4000, false), ("system call 4000".into(), false));
        assert!(own_wait_call(&memory, 8).is_none());
        assert!(own_wait_call(&memory, usize::MAX).is_none());
    }
}
