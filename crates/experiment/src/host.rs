//! Load of the machine by other processes and, under a hypervisor, by other machines.

use profile::{Disturbance, StandingTime, TargetTime};
use runtime_abi::Page;
use sampler::ExternalWaits;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The counts of the whole machine and the target's own CPU time, all in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineUsage {
    /// Time of all processors, by the clock, not by ticks.
    all: u64,
    idle: u64,
    stolen: u64,
    own: u64,
}

/// Accounts of the machine and the target's threads at one moment.
pub(crate) struct Accounts {
    /// Time by the monotonic clock, in nanoseconds.
    at_ns: u64,
    usage: MachineUsage,
    threads: Threads,
    standing: StandingTime,
    /// Nanoseconds that each thread has waited for work from other processes; `None` if not
    /// watched.
    for_clients: Option<BTreeMap<u32, u64>>,
}

impl Accounts {
    /// Reads the current accounts; `None` where the kernel has none.
    pub fn read_now(page: &Page, waits: Option<&ExternalWaits>) -> Option<Self> {
        Some(Self {
            at_ns: sampler::monotonic_ns(),
            for_clients: waits.map(ExternalWaits::for_clients),
            usage: MachineUsage::read_now(page)?,
            threads: thread_accounts(page),
            standing: standing_time(page),
        })
    }

    /// Returns the load besides the target between two readings, and the times of the target's
    /// threads.
    pub fn disturbance_since(&self, before: &Self) -> Disturbance {
        let standing = StandingTime {
            total_ns: (self.standing.total_ns).saturating_sub(before.standing.total_ns),
            waited_ns: (self.standing.waited_ns).saturating_sub(before.standing.waited_ns),
        };
        let own = self.usage.own.saturating_sub(before.usage.own);
        let target = target_time(&before.threads, &self.threads, own);
        Disturbance {
            target: target.map(|target| TargetTime {
                standing: Some(standing),
                for_clients_ns: self.waited_for_clients(before),
                ..target
            }),
            ..self.usage.disturbance_since(before.usage)
        }
    }
}

impl Accounts {
    /// Returns the wall time between two readings for which threads waited for work from other
    /// processes: the mean over threads, weighted by their running time, because a thread with
    /// little work hardly affects the program.
    fn waited_for_clients(&self, before: &Self) -> Option<u64> {
        let (after, before_waits) = (self.for_clients.as_ref()?, before.for_clients.as_ref()?);
        let passed = self.at_ns.saturating_sub(before.at_ns);
        let (mut waited, mut ran) = (0.0, 0.0);
        for (thread, now) in &self.threads {
            let then = before.threads.get(thread).copied().unwrap_or_default();
            let own = now.ran_ns.saturating_sub(then.ran_ns) as f64;
            let of = |waits: &BTreeMap<u32, u64>| waits.get(thread).copied().unwrap_or(0);
            // A wait may have begun long before the first reading.
            let wait = of(after).saturating_sub(of(before_waits)).min(passed);
            waited += own * wait as f64;
            ran += own;
        }
        (ran > 0.0).then(|| (waited / ran) as u64)
    }
}

/// Time on processors and waiting for one, by thread.
type Threads = BTreeMap<u32, TargetTime>;

impl MachineUsage {
    /// Reads the current usage; `None` where the kernel does not report it.
    fn read_now(page: &Page) -> Option<Self> {
        Some(Self {
            own: target_cpu_time(page),
            ..Self::read_machine()?
        })
    }

    /// Reads the machine's usage only.
    pub fn read_machine() -> Option<Self> {
        // SAFETY: asks for a number.
        let hertz = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok()?;
        let (usage, cpus) = parse_proc_stat(&std::fs::read_to_string("/proc/stat").ok()?, hertz)?;
        Some(Self {
            all: sampler::monotonic_ns().checked_mul(cpus)?,
            ..usage
        })
    }

    /// Returns the fraction of the processors' time that the hypervisor took between two readings.
    pub fn stolen_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all).max(1) as f64;
        self.stolen.saturating_sub(before.stolen) as f64 / all
    }

    /// Returns the stolen time for each nanosecond that anything ran on the machine, between two
    /// readings.
    pub fn stolen_for_running(self, before: Self) -> f64 {
        let between = |of: fn(&Self) -> u64| of(&self).saturating_sub(of(&before));
        let stolen = between(|it| it.stolen);
        let ran = between(|it| it.all).saturating_sub(stolen.saturating_add(between(|it| it.idle)));
        match ran {
            0 => 0.0,
            ran => stolen as f64 / ran as f64,
        }
    }

    /// Returns the time between two readings that was not the target's. Idle and stolen time is
    /// counted in ticks, a few of which may fall on the wrong side of a reading. Without both, the
    /// rest is exact.
    fn disturbance_since(self, before: Self) -> Disturbance {
        let between = |of: fn(&Self) -> u64| of(&self).saturating_sub(of(&before));
        let (stolen_ns, idle_ns) = (between(|it| it.stolen), between(|it| it.idle));
        let others_ns = [between(|it| it.own), stolen_ns, idle_ns]
            .into_iter()
            .fold(between(|it| it.all), u64::saturating_sub);
        Disturbance {
            stolen_ns,
            others_ns,
            idle_ns: Some(idle_ns),
            target: None,
        }
    }
}

/// Fraction of a processor that other processes use above which processors count as shared, if
/// threads also wait for [`MUCH_WAITED`] of their running time.
const MUCH_USED: f64 = 0.15;
const MUCH_WAITED: f64 = 0.1;

/// Returns whether the target's threads had to share processors with other processes in an
/// experiment of this length.
pub(crate) fn shares_processors(disturbance: &Disturbance, length: Duration) -> bool {
    let used = disturbance.others_ns as f64 > MUCH_USED * length.as_nanos() as f64;
    used && disturbance
        .target
        .is_some_and(|it| it.waited_ns as f64 > MUCH_WAITED * it.ran_ns as f64)
}

/// Returns the threads' times between two readings; `None` if none could be read. A thread that
/// began meanwhile counts from its begin. An ended thread's waits are unknown; its running time is
/// part of `own`, that of its process.
fn target_time(before: &Threads, after: &Threads, own: u64) -> Option<TargetTime> {
    let known = after.iter().map(|(id, now)| {
        let then = before.get(id).copied().unwrap_or_default();
        (
            now.ran_ns.saturating_sub(then.ran_ns),
            now.waited_ns.saturating_sub(then.waited_ns),
        )
    });
    let (ran_ns, waited_ns) = known.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
    let ran_ns = ran_ns.max(own);
    (ran_ns > 0).then_some(TargetTime {
        ran_ns,
        waited_ns,
        ..TargetTime::default()
    })
}

/// Reads how long threads have stood still so far.
fn standing_time(page: &Page) -> StandingTime {
    let standing = &page.standing.0;
    StandingTime {
        total_ns: standing.total.load(Relaxed),
        waited_ns: standing.without_cpu.load(Relaxed),
    }
}

/// Reads the scheduler's account of each measured thread.
fn thread_accounts(page: &Page) -> Threads {
    let used = page.used.load(Relaxed) as usize;
    let ids = page.threads.iter().take(used).filter_map(|thread| {
        let (tid, pid) = (thread.tid.load(Relaxed), thread.pid.load(Relaxed));
        (tid != 0).then_some((tid, pid))
    });
    ids.take(MOST_THREADS)
        .filter_map(|(tid, pid)| {
            let path = format!("/proc/{pid}/task/{tid}/schedstat");
            Some((tid, parse_schedstat(&std::fs::read_to_string(path).ok()?)?))
        })
        .collect()
}

/// Maximum number of threads whose accounts are read: each takes a file.
const MOST_THREADS: usize = 512;

/// Parses a thread's account: nanoseconds on processors, nanoseconds waiting for one, and turns.
fn parse_schedstat(text: &str) -> Option<TargetTime> {
    let mut numbers = text.split_ascii_whitespace().map(|word| word.parse().ok());
    Some(TargetTime {
        ran_ns: numbers.next()??,
        waited_ns: numbers.next()??,
        ..TargetTime::default()
    })
}

/// Parses the first line of `/proc/stat`, and counts the lines of processors that follow: the
/// online ones.
pub(crate) fn parse_proc_stat(text: &str, hertz: u64) -> Option<(MachineUsage, u64)> {
    let mut lines = text.lines();
    let mut words = lines.next()?.split_ascii_whitespace();
    if words.next()? != "cpu" {
        return None;
    }
    let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let &[
        user,
        nice,
        system,
        idle,
        wait,
        interrupts,
        softirq,
        stolen,
        ..,
    ] = ticks.as_slice()
    else {
        return None;
    };
    let ns = |ticks: u64| ticks.checked_mul(1_000_000_000 / hertz.max(1));
    let sum = |ticks: &[u64]| ticks.iter().copied().fold(0, u64::saturating_add);
    let all = sum(&[user, nice, system, interrupts, softirq, idle, wait, stolen]);
    let usage = MachineUsage {
        all: ns(all)?,
        idle: ns(sum(&[idle, wait]))?,
        stolen: ns(stolen)?,
        own: 0,
    };
    let cpus = lines.take_while(|line| line.starts_with("cpu")).count();
    Some((usage, cpus.max(1) as u64))
}

/// Returns the CPU time of the target's measured processes.
fn target_cpu_time(page: &Page) -> u64 {
    let used = page.used.load(Relaxed) as usize;
    let slots = page.threads.iter().take(used);
    let pids: BTreeSet<u32> = slots
        .filter(|thread| thread.tid.load(Relaxed) != 0)
        .map(|thread| thread.pid.load(Relaxed))
        .chain([page.pid.load(Relaxed)])
        .collect();
    pids.into_iter().filter_map(cpu_time).sum()
}

/// Returns the CPU time of a process.
fn cpu_time(pid: u32) -> Option<u64> {
    let pid = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0)?;
    let mut clock: libc::clockid_t = 0;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: both are written through the pointers.
    let read = unsafe {
        libc::clock_getcpuclockid(pid, &raw mut clock) == 0
            && libc::clock_gettime(clock, &raw mut time) == 0
    };
    let ns = u64::try_from(time.tv_sec)
        .ok()?
        .checked_mul(1_000_000_000)?;
    read.then(|| ns.saturating_add(time.tv_nsec as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_the_machine_is_read() {
        let text = "cpu  100 10 20 900 7 1 2 30 5 0\ncpu0 1 1 1 1 1 1 1 1 0 0\ncpu1 1 1\nintr 5\n";
        let (usage, cpus) = parse_proc_stat(text, 100).unwrap();
        assert_eq!(cpus, 2);
        assert_eq!(usage.all, 1070 * 10_000_000);
        assert_eq!(usage.idle, 907 * 10_000_000);
        assert_eq!(usage.stolen, 30 * 10_000_000);
        for bad in ["", "cpu", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3 x"] {
            assert_eq!(parse_proc_stat(bad, 100), None, "{bad}");
        }
    }

    #[test]
    fn what_the_target_uses_is_no_disturbance() {
        let at = |all, idle, stolen, own| MachineUsage {
            all,
            idle,
            stolen,
            own,
        };
        let between = at(1000, 80, 70, 600).disturbance_since(at(100, 0, 50, 100));
        let expected = Disturbance {
            stolen_ns: 20,
            others_ns: 300,
            idle_ns: Some(80),
            target: None,
        };
        assert_eq!(between, expected);
        // Ticks may be counted late.
        let late = at(100, 0, 0, 500).disturbance_since(at(0, 0, 0, 0));
        assert_eq!(late.others_ns, 0);
    }

    #[test]
    fn stolen_time_is_that_of_whoever_ran() {
        let at = |all, idle, stolen| MachineUsage {
            all,
            idle,
            stolen,
            own: 0,
        };
        let before = at(1000, 100, 50);
        assert_eq!(at(2000, 600, 150).stolen_for_running(before), 0.25);
        assert_eq!(before.stolen_for_running(before), 0.0);
        // Ticks may be counted late.
        assert_eq!(at(1010, 100, 60).stolen_for_running(before), 0.0);
    }

    #[test]
    fn threads_are_accounted_for_from_their_begin() {
        let read = parse_schedstat("5000 700 12\n");
        let of = |ran_ns, waited_ns| TargetTime {
            ran_ns,
            waited_ns,
            ..TargetTime::default()
        };
        assert_eq!(read, Some(of(5000, 700)));
        assert_eq!(parse_schedstat("5000 x"), None);
        let before = Threads::from([(1, of(100, 10)), (2, of(50, 5))]);
        let after = Threads::from([(1, of(400, 30)), (3, of(7, 1))]);
        assert_eq!(target_time(&before, &after, 0), Some(of(307, 21)));
        assert_eq!(target_time(&before, &Threads::new(), 0), None);
        // Threads that lived only in between ran for the rest.
        assert_eq!(target_time(&before, &after, 9000), Some(of(9000, 21)));
    }

    #[test]
    fn processes_have_a_clock() {
        let before = cpu_time(std::process::id()).unwrap();
        let mut x = 1u64;
        while cpu_time(std::process::id()).unwrap() <= before {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        assert_eq!(cpu_time(0), None);
        assert_eq!(cpu_time(u32::MAX), None);
    }
}
