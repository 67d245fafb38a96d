//! What the machine does besides the target: for other processes, and for other machines.

use profile::Disturbance;
use runtime_abi::Page;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

/// The counts of the whole machine and the target's own CPU time, all in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// All the time of all processors.
    all: u64,
    busy: u64,
    stolen: u64,
    own: u64,
}

impl Usage {
    /// As it is now; `None` where the kernel does not say.
    pub fn now(page: &Page) -> Option<Self> {
        Some(Self {
            own: own(page),
            ..Self::machine()?
        })
    }

    /// That of the machine only.
    pub fn machine() -> Option<Self> {
        // SAFETY: asks for a number.
        let hertz = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok()?;
        parse(&std::fs::read_to_string("/proc/stat").ok()?, hertz)
    }

    /// The part of the processors' time that the hypervisor took between two readings.
    pub fn stolen_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all).max(1) as f64;
        self.stolen.saturating_sub(before.stolen) as f64 / all
    }

    /// What was not the target's between two readings. The machine's counts are in ticks, so that a few may be
    /// on the wrong side of a reading.
    pub fn since(self, before: Self) -> Disturbance {
        let busy = self.busy.saturating_sub(before.busy);
        Disturbance {
            stolen_ns: self.stolen.saturating_sub(before.stolen),
            others_ns: busy.saturating_sub(self.own.saturating_sub(before.own)),
        }
    }
}

/// The first line of `/proc/stat`.
pub(crate) fn parse(text: &str, hertz: u64) -> Option<Usage> {
    let mut words = text.lines().next()?.split_ascii_whitespace();
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
    let busy = sum(&[user, nice, system, interrupts, softirq]);
    Some(Usage {
        all: ns(sum(&[busy, idle, wait, stolen]))?,
        busy: ns(busy)?,
        stolen: ns(stolen)?,
        own: 0,
    })
}

/// CPU time of the target's processes that are measured.
fn own(page: &Page) -> u64 {
    let used = page.used.load(Relaxed) as usize;
    let slots = page.threads.iter().take(used);
    let pids: BTreeSet<u32> = slots
        .filter(|thread| thread.tid.load(Relaxed) != 0)
        .map(|thread| thread.pid.load(Relaxed))
        .chain([page.pid.load(Relaxed)])
        .collect();
    pids.into_iter().filter_map(cpu_time).sum()
}

/// CPU time of a process.
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
        let text = "cpu  100 10 20 900 7 1 2 30 5 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        let usage = parse(text, 100).unwrap();
        assert_eq!(usage.busy, 133 * 10_000_000);
        assert_eq!(usage.stolen, 30 * 10_000_000);
        for bad in ["", "cpu", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3 x"] {
            assert_eq!(parse(bad, 100), None, "{bad}");
        }
    }

    #[test]
    fn what_the_target_uses_is_no_disturbance() {
        let at = |busy, stolen, own| Usage {
            all: 0,
            busy,
            stolen,
            own,
        };
        let between = at(900, 70, 600).since(at(100, 50, 100));
        let expected = Disturbance {
            stolen_ns: 20,
            others_ns: 300,
        };
        assert_eq!(between, expected);
        assert_eq!(at(100, 0, 500).since(at(0, 0, 0)).others_ns, 0);
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
