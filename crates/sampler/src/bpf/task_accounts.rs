//! Times of the target's threads during the recording, from the scheduler's accounts.
//!
//! The kernel keeps for each thread how long it ran and how long it waited for a CPU, and drops
//! both with the thread. A BPF program sums them up as threads are released; those that live at the
//! end are read in /proc. Without BPF there is only the CPU time of processes.

use crate::bpf::programs;
use crate::clock::monotonic_ns;
use crate::processes::ProcessStat;
use crate::processes::threads::{numbers_in, thread_ids};
use crate::{Error, TargetSpec};
use libbpf_rs::{Link, MapCore, MapFlags, Object};
use profile::TaskTimes;
use rustc_hash::FxHashSet;
use std::fs;
use std::time::{Duration, Instant};

/// The compiled programs.
const CODE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tasks.bpf.o"));
/// Activity, for error messages.
const COUNTING: &str = "adding up the times of threads";
/// Longest wait for the kernel to release ended threads, which mostly takes some milliseconds. The
/// kernel releases a thread only after an RCU grace period, which took seconds on a crowded
/// machine. An unreleased thread's time since its last tick is missing.
const LONGEST_END: Duration = Duration::from_millis(300);

/// Deficit of a command's accounts that its fork and its last ticks explain.
const SHORT_NS: u64 = 10_000_000;

/// `struct account`: a thread that the kernel has not released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ThreadAccount {
    cpu_ns: u64,
    waiting_ns: u64,
    start_ns: u64,
    end_ns: u64,
    exit_cpu_ns: u64,
    exit_waiting_ns: u64,
    tid: u32,
}

impl ThreadAccount {
    const SIZE: usize = 56;

    fn from_bytes(bytes: &[u8]) -> Self {
        let long = |at| programs::read_u64(bytes, at);
        Self {
            cpu_ns: long(0),
            waiting_ns: long(8),
            start_ns: long(16),
            end_ns: long(24),
            exit_cpu_ns: long(32),
            exit_waiting_ns: long(40),
            tid: programs::read_u32(bytes, 48),
        }
    }

    fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let longs = [
            self.cpu_ns,
            self.waiting_ns,
            self.start_ns,
            self.end_ns,
            self.exit_cpu_ns,
            self.exit_waiting_ns,
        ];
        for (slot, long) in bytes.chunks_exact_mut(8).zip(longs) {
            slot.copy_from_slice(&long.to_ne_bytes());
        }
        bytes[48..52].copy_from_slice(&self.tid.to_ne_bytes());
        bytes
    }
}

/// `struct totals`, of all CPUs.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    threads: u64,
    cpu_ns: u64,
    waiting_ns: u64,
    life_ns: u64,
    lost: u64,
    unknown: u64,
}

impl Totals {
    /// Adds a thread that still lives, or has ended and was not released.
    fn add_thread(&mut self, account: &ThreadAccount, now: u64, cpu_ns: u64, waiting_ns: u64) {
        let end = if account.end_ns == 0 {
            now
        } else {
            account.end_ns
        };
        self.threads += 1;
        self.cpu_ns += cpu_ns.saturating_sub(account.cpu_ns);
        self.waiting_ns += waiting_ns.saturating_sub(account.waiting_ns);
        self.life_ns += end.saturating_sub(account.start_ns);
    }

    /// Returns the times, if no thread was missed.
    fn complete_times(&self) -> Option<TaskTimes> {
        if self.lost > 0 {
            return None;
        }
        let waiting_ns = (self.unknown == 0).then_some(self.waiting_ns);
        let blocked = |waiting: u64| self.life_ns.saturating_sub(self.cpu_ns + waiting);
        Some(TaskTimes {
            cpu_ns: self.cpu_ns,
            waiting_ns,
            blocked_ns: waiting_ns.map(blocked),
            idle_ns: None,
            threads: Some(self.threads),
        })
    }
}

/// The accounts of a target's threads, from its start on.
pub(crate) struct TaskAccounts {
    programs: Option<Programs>,
    /// Without programs: the process's id, and its CPU times at the start and at the last look.
    process: Option<(u32, u64, u64)>,
    machine: bool,
    start_ns: u64,
    /// State of the machine after its threads had been read: the time, and the idle time of its
    /// CPUs.
    idle_before: Option<(u64, u64)>,
}

struct Programs {
    object: Object,
    _links: Vec<Link>,
}

impl TaskAccounts {
    /// Loads the programs, before there is a target.
    pub fn open(target: &TargetSpec) -> Self {
        let machine = *target == TargetSpec::Machine;
        Self {
            programs: Programs::load_programs(machine).ok(),
            process: None,
            machine,
            start_ns: 0,
            idle_before: None,
        }
    }

    /// Begins with this process, which is about to be the command or runs already, or with all
    /// processes.
    pub fn begin(&mut self, process: Option<u32>) {
        self.start_ns = monotonic_ns();
        match (&self.programs, process) {
            (Some(programs), Some(pid)) => programs.watch_process(pid, self.start_ns),
            (Some(programs), None) => programs.watch_all(self.start_ns),
            (None, Some(pid)) => {
                self.process = process_cpu_ns(pid).map(|cpu| (pid, cpu, cpu));
            }
            (None, None) => {}
        }
        if self.machine {
            self.idle_before = idle_ns().map(|idle| (monotonic_ns(), idle));
        }
    }

    /// Reads the CPU time of the process while it lives, if there are no programs. Called several
    /// times a second.
    pub fn tick(&mut self) {
        if let Some((pid, _, last)) = &mut self.process
            && let Some(cpu) = process_cpu_ns(*pid)
        {
            *last = cpu;
        }
    }

    /// Returns the times. `reaped_ns` is the CPU time that the kernel accounted to a launched
    /// command that has ended.
    pub fn finish(&mut self, cpus: usize, reaped_ns: Option<u64>) -> Option<TaskTimes> {
        if self.start_ns == 0 {
            return None;
        }
        if self.machine {
            return self.machine_times(cpus);
        }
        if let Some(programs) = &self.programs {
            let times = programs.wait_for_totals(LONGEST_END)?.complete_times()?;
            return Some(reaped_ns.map_or(times, |reaped| at_least(times, reaped)));
        }
        self.tick();
        let (_, before, last) = self.process?;
        let cpu_ns = reaped_ns.unwrap_or_else(|| last.saturating_sub(before));
        Some(TaskTimes {
            cpu_ns,
            ..TaskTimes::default()
        })
    }
}

/// Returns times that are not below the kernel's account of a command and the children that it has
/// waited for. If threads are missing in them, their waits are, too.
fn at_least(times: TaskTimes, reaped_ns: u64) -> TaskTimes {
    let short_by = reaped_ns.saturating_sub(times.cpu_ns);
    let complete = short_by <= reaped_ns / 10 + SHORT_NS;
    TaskTimes {
        cpu_ns: times.cpu_ns.max(reaped_ns),
        waiting_ns: times.waiting_ns.filter(|_| complete),
        blocked_ns: times.blocked_ns.filter(|_| complete),
        ..times
    }
}

impl TaskAccounts {
    /// Returns the times of the machine, from the idle time of its CPUs. That is read at once,
    /// while reading all threads takes a while.
    fn machine_times(&self, cpus: usize) -> Option<TaskTimes> {
        let (start, before) = self.idle_before?;
        let idle = idle_ns()?.saturating_sub(before);
        let capacity = monotonic_ns()
            .saturating_sub(start)
            .saturating_mul(cpus as u64);
        // On a machine threads end all the time, so their release is not waited for.
        let programs = self.programs.as_ref();
        let threads = programs
            .and_then(|programs| programs.wait_for_totals(Duration::ZERO)?.complete_times());
        Some(TaskTimes {
            cpu_ns: capacity.saturating_sub(idle),
            waiting_ns: threads.and_then(|threads| threads.waiting_ns),
            blocked_ns: None, // threads of a whole machine mostly wait for work
            idle_ns: Some(idle.min(capacity)),
            threads: threads.and_then(|threads| threads.threads),
        })
    }
}

impl Programs {
    fn load_programs(everything: bool) -> Result<Self, Error> {
        let object = programs::load_programs(CODE, &u32::from(everything).to_ne_bytes(), COUNTING)?;
        let links = object
            .progs_mut()
            .map(|program| program.attach())
            .collect::<Result<Vec<_>, _>>()
            .map_err(Error::bpf(COUNTING))?;
        Ok(Self {
            object,
            _links: links,
        })
    }

    fn find_map(&self, name: &str) -> Option<libbpf_rs::Map<'_>> {
        self.object.maps().find(|map| map.name() == name)
    }

    fn watch_process(&self, pid: u32, now: u64) {
        // The process first: a thread that it starts meanwhile is counted by the program, and a
        // thread found by both is counted once.
        if let Some(map) = self.find_map("processes") {
            let _ = map.update(&pid.to_ne_bytes(), &1u32.to_ne_bytes(), MapFlags::ANY);
        }
        thread_ids(pid)
            .into_iter()
            .for_each(|tid| self.watch_thread(tid, now));
    }

    fn watch_all(&self, now: u64) {
        for pid in numbers_in("/proc") {
            thread_ids(pid)
                .into_iter()
                .for_each(|tid| self.watch_thread(tid, now));
        }
    }

    fn watch_thread(&self, tid: u32, now: u64) {
        let Some((cpu_ns, waiting_ns)) = scheduler_times(tid) else {
            return;
        };
        let account = ThreadAccount {
            cpu_ns,
            waiting_ns,
            start_ns: now,
            tid,
            ..ThreadAccount::default()
        };
        if let Some(map) = self.find_map("earlier") {
            let _ = map.update(&tid.to_ne_bytes(), &account.to_bytes(), MapFlags::NO_EXIST);
        }
    }

    /// Returns the totals of all threads until now. Waits up to `patience` for the kernel to
    /// release threads that have ended.
    fn wait_for_totals(&self, patience: Duration) -> Option<Totals> {
        let begun = Instant::now();
        let mut living = self.read_accounts("threads");
        // Zombies stay until their parent reaps them; they can be read meanwhile.
        let is_leaving =
            |one: &ThreadAccount| one.end_ns != 0 && scheduler_times(one.tid).is_none();
        while living.iter().any(is_leaving) && begun.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(2));
            living = self.read_accounts("threads");
        }
        let now = monotonic_ns();
        let mut totals = self.read_totals()?;
        // A thread released while the list is read would be in both sums or in neither.
        for _ in 0..20 {
            living = self.read_accounts("threads");
            let after = self.read_totals()?;
            if std::mem::replace(&mut totals, after).threads == after.threads {
                break;
            }
        }
        let known: FxHashSet<u32> = living.iter().map(|one| one.tid).collect();
        let mut earlier = self.read_accounts("earlier");
        earlier.retain(|one| !known.contains(&one.tid));
        for account in living.iter().chain(&earlier) {
            let at_exit =
                (account.end_ns != 0).then_some((account.exit_cpu_ns, account.exit_waiting_ns));
            if let Some((cpu_ns, waiting_ns)) = scheduler_times(account.tid).or(at_exit) {
                totals.add_thread(account, now, cpu_ns, waiting_ns);
            }
        }
        Some(totals)
    }

    fn read_totals(&self) -> Option<Totals> {
        let map = self.find_map("sums")?;
        let values = map
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .ok()??;
        let mut totals = Totals::default();
        for value in &values {
            let long = |at| programs::read_u64(value, at);
            totals.threads += long(0);
            totals.cpu_ns += long(8);
            totals.waiting_ns += long(16);
            totals.life_ns += long(24);
            totals.lost += long(32);
            totals.unknown += long(40);
        }
        Some(totals)
    }

    fn read_accounts(&self, map: &str) -> Vec<ThreadAccount> {
        let Some(map) = self.find_map(map) else {
            return Vec::new();
        };
        let value = |key: Vec<u8>| map.lookup(&key, MapFlags::ANY).ok()?;
        let values = map.keys().filter_map(value);
        values.map(|v| ThreadAccount::from_bytes(&v)).collect()
    }
}

/// Returns how long a thread has run and waited for a CPU, even if it has ended and was not reaped.
fn scheduler_times(tid: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    let mut numbers = text.split_whitespace().map(str::parse);
    match (numbers.next()?, numbers.next()?) {
        (Ok(cpu), Ok(waiting)) => Some((cpu, waiting)),
        _ => None,
    }
}

/// Returns the CPU time of a process and of its reaped children, in the kernel's ticks.
fn process_cpu_ns(pid: u32) -> Option<u64> {
    from_ticks(ProcessStat::read_process(pid)?.cpu_ticks)
}

/// Returns how long all CPUs have been idle since boot.
fn idle_ns() -> Option<u64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let idle_and_io_wait = line.split_whitespace().skip(3).take(2);
    let ticks: Option<u64> = idle_and_io_wait
        .map(|field| field.parse::<u64>().ok())
        .sum();
    from_ticks(ticks?)
}

/// Converts the kernel's ticks for user space to nanoseconds.
fn from_ticks(ticks: u64) -> Option<u64> {
    // SAFETY: a call without pointers.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Some(ticks * 1_000_000_000 / u64::try_from(per_second).ok()?.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_read_as_it_was_written() {
        let account = ThreadAccount {
            cpu_ns: 1,
            waiting_ns: 2,
            start_ns: 3,
            end_ns: u64::MAX,
            exit_cpu_ns: 6,
            exit_waiting_ns: 7,
            tid: 5,
        };
        assert_eq!(ThreadAccount::from_bytes(&account.to_bytes()), account);
    }

    #[test]
    fn what_a_thread_did_before_is_not_counted() {
        let mut totals = Totals::default();
        let account = ThreadAccount {
            cpu_ns: 100,
            waiting_ns: 10,
            start_ns: 1_000,
            ..ThreadAccount::default()
        };
        totals.add_thread(&account, 2_000, 400, 60);
        let times = totals.complete_times().expect("known");
        assert_eq!((times.cpu_ns, times.waiting_ns), (300, Some(50)));
        assert_eq!(times.blocked_ns, Some(650));
        totals.unknown = 1;
        let times = totals.complete_times().expect("known");
        assert_eq!((times.waiting_ns, times.blocked_ns), (None, None));
        totals.lost = 1;
        assert_eq!(totals.complete_times(), None);
    }

    #[test]
    fn no_command_has_less_than_the_kernel_accounted_to_it() {
        let times = |cpu_ns| TaskTimes {
            cpu_ns,
            waiting_ns: Some(7),
            blocked_ns: Some(8),
            ..TaskTimes::default()
        };
        // Unreaped processes add to it.
        assert_eq!(
            at_least(times(500_000_000), 400_000_000),
            times(500_000_000)
        );
        assert_eq!(
            at_least(times(399_000_000), 400_000_000),
            times(400_000_000)
        );
        let missed = at_least(times(1_150_000), 400_000_000);
        assert_eq!(missed.cpu_ns, 400_000_000);
        assert_eq!((missed.waiting_ns, missed.blocked_ns), (None, None));
    }

    #[test]
    fn the_kernel_says_what_this_process_used() {
        let begun = process_cpu_ns(std::process::id()).expect("of this process");
        let mut sum = 0_u64;
        while process_cpu_ns(std::process::id()).expect("of this process") < begun + 20_000_000 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert_eq!(process_cpu_ns(u32::MAX), None);
    }
}
