//! Reads `/proc/PID/stat`, the state of a process.

use crate::clock::{boot_ns, unix_ns};

/// A process, as described in that line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    /// `R` running or runnable, `Z` ended and not reaped, and so on.
    pub state: char,
    /// Parent process; 0: none.
    pub parent: u32,
    /// CPU time of the process and of its reaped children, in the kernel's ticks.
    pub cpu_ticks: u64,
    /// Number of threads. The first one counts until the process is reaped.
    pub threads: u64,
    /// Start time, in these ticks since boot.
    pub started_ticks: u64,
}

impl ProcessStat {
    /// Reads the line; `None` if the process no longer exists.
    pub fn read_process(pid: u32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(line: &str) -> Option<Self> {
        // The name before may contain blanks and parentheses.
        let (_, rest) = line.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let times = fields.get(11..15)?.iter().map(|field| field.parse::<u64>());
        Some(Self {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            cpu_ticks: times.sum::<Result<u64, _>>().ok()?,
            threads: fields.get(17)?.parse().ok()?,
            started_ticks: fields.get(19)?.parse().ok()?,
        })
    }

    /// Returns the start time, in nanoseconds since 1970, to a hundredth of a second.
    pub fn started_unix_ns(&self) -> u64 {
        // SAFETY: a call without pointers.
        let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
        let since_boot = self.started_ticks.saturating_mul(1_000_000_000 / ticks);
        let age = boot_ns().saturating_sub(since_boot);
        unix_ns().saturating_sub(age)
    }

    /// Returns whether the process has not ended. The state is that of its first thread: others may
    /// run after that has ended.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X') || self.threads > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_have_anything_in_it() {
        let line = "7 (a) Z 9 (b) S 42 7 7 0 -1 4194560 1 2 3 4 100 20 3 4 20 0 1 0 777 9 9";
        let found = ProcessStat::parse(line);
        let wanted = ProcessStat {
            state: 'S',
            parent: 42,
            cpu_ticks: 127,
            threads: 1,
            started_ticks: 777,
        };
        assert_eq!(found, Some(wanted));
        for cut in 0..line.rfind("777").unwrap() {
            assert_eq!(ProcessStat::parse(&line[..cut]), None, "{cut}");
        }
        let zombie = |threads| ProcessStat {
            state: 'Z',
            threads,
            ..wanted
        };
        assert!(!zombie(1).is_alive() && zombie(2).is_alive());
    }

    #[test]
    fn a_process_that_ended_is_not_alive() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let read = || ProcessStat::read_process(child.id());
        assert!(read().is_some_and(|it| it.is_alive() && it.parent == std::process::id()));
        let age = unix_ns().saturating_sub(read().unwrap().started_unix_ns());
        assert!(age < 10_000_000_000, "{age} ns old");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(ProcessStat::read_process(child.id()), None);
    }
}
