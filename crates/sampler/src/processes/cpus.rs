//! The CPUs that a thread may run on.

use std::collections::BTreeMap;

/// Maximum number of CPUs, above that of any machine; `waits.bpf.c` has the same limit.
const MOST_CPUS: u32 = 4096;

/// Returns the numbers of the CPUs that a thread may run on; `None` if it has ended.
pub fn usable_cpus(tid: u32) -> Option<Vec<u32>> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let mut lines = status.lines();
    let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    parse_cpu_list(list.trim())
}

/// Parses a list of numbers in the kernel's form: `0-3,8`.
pub fn parse_cpu_list(list: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last {
            return None;
        }
        cpus.extend(first..=last.min(MOST_CPUS - 1));
    }
    Some(cpus)
}

/// The CPUs that at least one of some threads may use.
pub struct UsableCpus {
    threads: BTreeMap<u32, Vec<u32>>,
    /// Number of threads that may use a CPU, by CPU.
    users: BTreeMap<u32, usize>,
    /// The thread that was last given by `next_thread`.
    last: u32,
}

/// Stands for all threads while none is known.
const NO_THREAD: u32 = 0;

impl UsableCpus {
    /// The CPUs that are assumed to be usable until the first thread is known.
    pub fn new(first: &[u32]) -> Self {
        Self {
            threads: BTreeMap::from([(NO_THREAD, first.to_vec())]),
            users: first.iter().map(|cpu| (*cpu, 1)).collect(),
            last: NO_THREAD,
        }
    }

    /// Sets the CPUs of a thread. Returns the CPUs that have become usable (true), or are no
    /// longer.
    pub fn set_cpus(&mut self, tid: u32, cpus: Vec<u32>) -> Vec<(u32, bool)> {
        if self.threads.get(&tid) == Some(&cpus) {
            return Vec::new();
        }
        let mut changes = Vec::new();
        for cpu in &cpus {
            let users = self.users.entry(*cpu).or_default();
            *users += 1;
            if *users == 1 {
                changes.push((*cpu, true));
            }
        }
        let before = self.threads.insert(tid, cpus).into_iter();
        for cpus in before.chain(self.threads.remove(&NO_THREAD)) {
            self.drop_user(&cpus, &mut changes);
        }
        changes
    }

    /// Forgets a thread. Returns the CPUs that are no longer usable.
    pub fn remove_thread(&mut self, tid: u32) -> Vec<(u32, bool)> {
        let mut changes = Vec::new();
        if let Some(cpus) = self.threads.remove(&tid) {
            self.drop_user(&cpus, &mut changes);
        }
        changes
    }

    fn drop_user(&mut self, cpus: &[u32], changes: &mut Vec<(u32, bool)>) {
        for cpu in cpus {
            let users = self.users.entry(*cpu).or_default();
            *users = users.saturating_sub(1);
            if *users == 0 {
                self.users.remove(cpu);
                changes.push((*cpu, false));
            }
        }
    }

    /// Returns the threads in turn. `None` if no thread is known.
    pub fn next_thread(&mut self) -> Option<u32> {
        let after = self.threads.range(self.last.saturating_add(1)..).next();
        let next = after.or_else(|| self.threads.first_key_value());
        self.last = *next?.0;
        (self.last != NO_THREAD).then_some(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_usable_while_a_thread_may_use_them() {
        let mut cpus = UsableCpus::new(&[0, 1]);
        assert_eq!(cpus.next_thread(), None);
        assert_eq!(cpus.set_cpus(7, vec![0, 1]), []);
        assert_eq!(cpus.set_cpus(9, vec![1]), []);
        assert_eq!(cpus.set_cpus(8, vec![1, 2]), [(2, true)]);
        let turns: Vec<_> = (0..4).map(|_| cpus.next_thread()).collect();
        assert_eq!(turns, [Some(7), Some(8), Some(9), Some(7)]);
        // The first thread binds itself, as most programs do before they start others.
        assert_eq!(cpus.set_cpus(7, vec![1]), [(0, false)]);
        assert_eq!(cpus.remove_thread(8), [(2, false)]);
        assert_eq!(cpus.remove_thread(7), []);
        assert_eq!(cpus.remove_thread(9), [(1, false)]);
        assert_eq!(cpus.next_thread(), None);
    }

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(parse_cpu_list("0-3,8"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse_cpu_list("0"), Some(vec![0]));
        assert_eq!(parse_cpu_list("3-1"), None);
        assert_eq!(parse_cpu_list(""), None);
        let most = parse_cpu_list("0-4294967295").expect("a list");
        assert_eq!(most.len(), MOST_CPUS as usize);
    }

    #[test]
    fn this_thread_may_use_some() {
        let own = usable_cpus(std::process::id()).expect("status");
        assert!(!own.is_empty());
    }
}
