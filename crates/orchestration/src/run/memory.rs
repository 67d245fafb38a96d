//! Memory of a program, and its limit.

use super::confinement::children_of;
use profile::{MemoryLimit, MemoryNeed};
use std::path::{Path, PathBuf};

/// Maximum number of processes that are examined. It is done ten times a second.
const MOST_PROCESSES: usize = 100;
/// Fill level of a control group at which the kernel reclaims memory from it.
const FULL: f64 = 0.9;
/// Directory and files of the memory controller: first of control groups of version 1, then of
/// version 2.
const GROUPS: [(&str, &str, &str); 2] = [
    (
        "/sys/fs/cgroup/memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
    ),
    ("/sys/fs/cgroup", "memory.max", "memory.current"),
];

/// Observer of a program's memory, and of the limit if the program reaches it.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryWatch {
    /// The largest memory of the program so far.
    most: ProcessMemory,
    /// The limit of a full control group, in bytes.
    group_limit: Option<u64>,
}

/// Memory of processes in bytes, without file pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ProcessMemory {
    resident: u64,
    swapped: u64,
}

impl ProcessMemory {
    /// Parses the text of `/proc/PID/status`.
    fn parse(status: &str) -> Self {
        let bytes = |key| bytes_after(status, key).unwrap_or_default();
        Self {
            resident: bytes("RssAnon:").saturating_add(bytes("RssShmem:")),
            swapped: bytes("VmSwap:"),
        }
    }

    fn total(self) -> u64 {
        self.resident.saturating_add(self.swapped)
    }
}

impl MemoryWatch {
    /// Observes processes and their descendants, if the machine has swapped.
    pub fn look_at_processes(&mut self, pids: &[u32]) {
        if !has_swapped() {
            return;
        }
        let mut all = pids.to_vec();
        let mut next = 0;
        while next < all.len() && all.len() < MOST_PROCESSES {
            all.extend(children_of(all[next]));
            next += 1;
        }
        let mut sum = ProcessMemory::default();
        for pid in &all {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
            let memory = ProcessMemory::parse(&status.unwrap_or_default());
            sum.resident = sum.resident.saturating_add(memory.resident);
            sum.swapped = sum.swapped.saturating_add(memory.swapped);
        }
        if sum.total() > self.most.total() {
            self.most = sum;
        }
        if sum.swapped > 0
            && let Some(limit) = all.iter().find_map(|pid| limit_of_process(*pid))
        {
            self.group_limit = Some(limit);
        }
    }

    /// Returns the program's memory need, if a part of it was swapped out.
    pub fn need(self) -> Option<MemoryNeed> {
        let (allowed_bytes, limit_of) = match self.group_limit {
            Some(limit) => (limit, MemoryLimit::ControlGroup),
            None => (memory_of_machine("MemTotal:")?, MemoryLimit::Machine),
        };
        (self.most.swapped > 0).then_some(MemoryNeed {
            needed_bytes: self.most.total(),
            swapped_bytes: self.most.swapped,
            allowed_bytes,
            limit_of,
        })
    }
}

/// Returns the limit of the innermost full control group of a process, in bytes.
fn limit_of_process(pid: u32) -> Option<u64> {
    let path = sampler::cgroup_of_process(pid)?;
    let in_root = path.trim_start_matches('/');
    let mut groups = GROUPS.iter();
    groups.find_map(|(root, limit, usage)| {
        let group = Path::new(root).join(in_root);
        let mut groups = group.ancestors().take_while(|at| at.starts_with(root));
        groups.find_map(|at| full_limit(&at.join(limit), &at.join(usage)))
    })
}

/// Returns a limit in bytes, if the usage is close to it. An absent limit is the word `max`, or a
/// number beyond all memory.
fn full_limit(limit: &PathBuf, usage: &PathBuf) -> Option<u64> {
    let number = |path| -> Option<u64> { std::fs::read_to_string(path).ok()?.trim().parse().ok() };
    let (limit, usage) = (number(limit)?, number(usage)?);
    (usage as f64 >= FULL * limit as f64).then_some(limit)
}

/// Returns whether the machine has swapped out anything.
fn has_swapped() -> bool {
    memory_of_machine("SwapTotal:") > memory_of_machine("SwapFree:")
}

/// Returns the value of a line of `/proc/meminfo`, in bytes.
fn memory_of_machine(key: &str) -> Option<u64> {
    bytes_after(&std::fs::read_to_string("/proc/meminfo").ok()?, key)
}

/// Returns the value of the first line that begins with `key`, in bytes. The line has kilobytes, as
/// the kernel writes them.
fn bytes_after(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tapp\nVmRSS:\t  300 kB\nRssAnon:\t  200 kB\nRssFile:\t   90 kB\nRssShmem:\t   10 kB\nVmSwap:\t  400 kB\n";

    #[test]
    fn pages_of_files_are_no_memory_of_a_program() {
        let memory = ProcessMemory::parse(STATUS);
        assert_eq!(memory.resident, 210 * 1024);
        assert_eq!(memory.swapped, 400 * 1024);
        assert_eq!(ProcessMemory::parse("VmSwap: x"), ProcessMemory::default());
    }

    #[test]
    fn a_full_group_is_the_limit() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).expect("written");
            path
        };
        let limit = file("limit", "1000\n");
        assert_eq!(full_limit(&limit, &file("full", "950\n")), Some(1000));
        assert_eq!(full_limit(&limit, &file("half", "500\n")), None);
        assert_eq!(full_limit(&file("none", "max\n"), &limit), None);
    }

    #[test]
    fn a_program_that_swaps_needs_more_than_there_is() {
        let mut watch = MemoryWatch::default();
        assert_eq!(watch.need(), None);
        watch.most = ProcessMemory {
            resident: 100,
            swapped: 50,
        };
        let need = watch.need().expect("it swapped");
        assert_eq!((need.needed_bytes, need.swapped_bytes), (150, 50));
        assert_eq!(need.limit_of, MemoryLimit::Machine);
        watch.group_limit = Some(110);
        let need = watch.need().expect("it swapped");
        assert_eq!(need.limit_of, MemoryLimit::ControlGroup);
        assert_eq!(need.allowed_bytes, 110);
    }
}
