//! Throttling of a process by the CPU limits of its control groups.

use profile::Throttled;
use std::path::{Path, PathBuf};

/// The control groups of a process that have a CPU limit, with their counts at the start.
#[derive(Debug, Default)]
pub(super) struct Throttling {
    groups: Vec<(PathBuf, ThrottleCounts)>,
}

/// The counters of `cpu.stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ThrottleCounts {
    times: u64,
    ns: u64,
}

impl Throttling {
    /// Reads the counts of a process's control groups and of their ancestors.
    pub fn of(pid: u32) -> Self {
        let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let groups = group_directories(&text, Path::new("/sys/fs/cgroup"));
        let groups = groups.into_iter().filter_map(|directory| {
            let counts = read_counts(&directory)?;
            Some((directory, counts))
        });
        Self {
            groups: groups.collect(),
        }
    }

    /// Returns the group with the longest throttling since the start, if there was any.
    pub fn since(&self) -> Option<Throttled> {
        let throttled = self.groups.iter().filter_map(|(directory, before)| {
            let now = read_counts(directory)?;
            Some(Throttled {
                group: directory.file_name()?.to_string_lossy().into_owned(),
                times: now.times.saturating_sub(before.times),
                ns: now.ns.saturating_sub(before.ns),
            })
        });
        throttled.filter(|t| t.ns > 0).max_by_key(|t| t.ns)
    }
}

/// Returns the directories of the groups in a `/proc/PID/cgroup`, and of their ancestors. The root
/// has no limit and is left out.
fn group_directories(text: &str, root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let base = match controllers {
            // Version 2, alone or beside version 1.
            "" => ["", "unified"].map(|name| root.join(name)).to_vec(),
            some if some.split(',').any(|name| name == "cpu") => {
                vec![root.join(some), root.join("cpu")]
            }
            _ => continue,
        };
        for base in base {
            let own = base.join(path.trim_start_matches('/'));
            let groups = own.ancestors().take_while(|group| **group != base);
            found.extend(groups.map(Path::to_owned));
        }
    }
    found
}

fn read_counts(directory: &Path) -> Option<ThrottleCounts> {
    parse_counts(&std::fs::read_to_string(directory.join("cpu.stat")).ok()?)
}

fn parse_counts(text: &str) -> Option<ThrottleCounts> {
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let (_, value) = lines.find(|(name, _)| *name == key)?;
        value.trim().parse::<u64>().ok()
    };
    let microseconds = || Some(value("throttled_usec")?.saturating_mul(1000));
    Some(ThrottleCounts {
        times: value("nr_throttled")?,
        ns: value("throttled_time").or_else(microseconds)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_control_groups_are_read() {
        let second = "usage_usec 9\nnr_periods 5\nnr_throttled 3\nthrottled_usec 42\n";
        let first = "nr_periods 5\nnr_throttled 3\nthrottled_time 42000\n";
        let counts = Some(ThrottleCounts {
            times: 3,
            ns: 42_000,
        });
        assert_eq!(parse_counts(second), counts);
        assert_eq!(parse_counts(first), counts);
        assert_eq!(parse_counts("usage_usec 9\n"), None);
    }

    #[test]
    fn a_limit_further_up_counts() {
        let root = Path::new("/g");
        let found = group_directories("0::/pod/app\n", root);
        assert!(found.contains(&PathBuf::from("/g/pod/app")));
        assert!(found.contains(&PathBuf::from("/g/pod")));
        let found = group_directories("4:memory:/m\n2:cpu,cpuacct:/x\n", root);
        assert!(found.contains(&PathBuf::from("/g/cpu,cpuacct/x")));
        assert!(!found.iter().any(|path| path.ends_with("m")));
    }
}
