//! The CPUs that a thread may run on.

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

#[cfg(test)]
mod tests {
    use super::*;

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
