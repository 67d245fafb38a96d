//! CPUs that a program may use, and its number of threads.

/// Observer of the CPUs that processes may use, and of their number of threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Confinement {
    allowed: Option<u32>,
    threads: usize,
}

impl Confinement {
    /// Observes processes. The last observation counts, because programs begin with all CPUs.
    pub fn look_at_processes(&mut self, pids: &[u32]) {
        let allowed = pids.iter().filter_map(|pid| allowed_cpus(*pid)).max();
        self.allowed = allowed.or(self.allowed);
        self.threads = pids
            .iter()
            .map(|pid| sampler::thread_ids(*pid).len())
            .max()
            .unwrap_or(0);
    }

    /// Returns whether a process has more than one thread.
    pub fn has_threads(self) -> bool {
        self.threads > 1
    }

    /// Returns the number of usable CPUs and of all CPUs. `None` if all are usable.
    pub fn limits(self) -> Option<(u32, u32)> {
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
        let online = sampler::parse_cpu_list(online.trim())?.len() as u32;
        self.allowed
            .filter(|allowed| *allowed < online)
            .map(|allowed| (allowed, online))
    }
}

/// Returns the child processes of this process.
pub fn own_children() -> Vec<u32> {
    children_of(std::process::id())
}

/// Returns the living child processes of a process.
pub fn children_of(pid: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.into_iter().flatten();
    let children = threads
        .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("children")).ok());
    let children: Vec<String> = children.collect();
    let words = children.iter().flat_map(|text| text.split_whitespace());
    words.filter_map(|word| word.parse().ok()).collect()
}

/// Returns the largest number of CPUs that a thread of the process may use.
fn allowed_cpus(pid: u32) -> Option<u32> {
    let cpus = sampler::thread_ids(pid)
        .into_iter()
        .filter_map(sampler::usable_cpus);
    cpus.map(|cpus| cpus.len() as u32).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_may_use_some() {
        let mut own = Confinement::default();
        own.look_at_processes(&[std::process::id()]);
        assert!(own.allowed.is_some_and(|allowed| allowed > 0));
    }
}
