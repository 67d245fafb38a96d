//! Paths of the control groups in which samples were taken.

use profile::{NameId, NameSet};
use rustc_hash::FxHashMap;

/// Number of names remembered between drains; beyond it, all are read again.
const MOST_REMEMBERED: usize = 16_384;

/// The paths of control groups by the collector's numbers.
#[derive(Default)]
pub(crate) struct CgroupPaths {
    paths: FxHashMap<u32, String>,
    /// Ids by number, among the names of the recording in progress.
    ids: FxHashMap<u32, NameId>,
}

impl CgroupPaths {
    /// Returns whether a number has no path yet.
    pub fn is_new(&self, number: u32) -> bool {
        !self.paths.contains_key(&number)
    }

    pub fn add_path(&mut self, number: u32, path: String) {
        if self.paths.len() >= MOST_REMEMBERED {
            self.paths.clear();
        }
        self.paths.insert(number, path);
    }

    /// Returns the id of a number's path among the names.
    pub fn name_of(&mut self, number: u32, names: &mut NameSet) -> NameId {
        *self
            .ids
            .entry(number)
            .or_insert_with(|| match self.paths.get(&number) {
                Some(path) => names.intern(path),
                None => names.intern(&format!("[cgroup {}]", number & 0x7fff_ffff)),
            })
    }

    /// Forgets the ids, which belonged to the former set of names.
    pub fn forget_ids(&mut self) {
        self.ids.clear();
    }
}

/// Returns whether the memory hierarchy, which only version 1 has, tells control groups apart.
pub(crate) fn are_by_memory() -> bool {
    let text = std::fs::read_to_string("/proc/cgroups").unwrap_or_default();
    has_memory_hierarchy(&text)
}

/// As [`are_by_memory`], from the text of `/proc/cgroups`: lines of controller and number of its
/// hierarchy (0: version 2).
fn has_memory_hierarchy(text: &str) -> bool {
    text.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some("memory") && words.next().is_some_and(|number| number != "0")
    })
}

/// Returns the path of a process's control group: in version 1 that of the memory hierarchy, unless
/// it is its root.
pub fn cgroup_of_process(pid: u32) -> Option<String> {
    path_in(&std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?)
}

/// As [`cgroup_of_process`], from the text of `/proc/PID/cgroup`.
fn path_in(text: &str) -> Option<String> {
    let of_controller = |controller: &str| {
        text.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let is_in = controllers.split(',').any(|one| one == controller);
            is_in.then(|| path.to_owned())
        })
    };
    let of_memory = of_controller("memory").filter(|path| path != "/");
    of_memory
        .or_else(|| of_controller(""))
        .or_else(|| of_controller("memory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_have_a_path() {
        let second = "0::/system.slice/nginx.service\n";
        assert_eq!(
            path_in(second).as_deref(),
            Some("/system.slice/nginx.service")
        );
        let first = "11:blkio:/\n4:cpu,cpuacct:/docker/ab\n3:hugetlb,memory:/docker/abc:d\n1:name=systemd:/docker/ab\n";
        assert_eq!(path_in(first).as_deref(), Some("/docker/abc:d"));
        let mixed = "3:memory:/\n1:name=systemd:/x\n0::/user.slice/a.scope\n";
        assert_eq!(path_in(mixed).as_deref(), Some("/user.slice/a.scope"));
        assert_eq!(path_in("3:memory:/\n").as_deref(), Some("/"));
        for nothing in ["", "garbage", "1:name=systemd:/x\n"] {
            assert_eq!(path_in(nothing), None);
        }
    }

    #[test]
    fn the_hierarchy_of_memory_is_recognised() {
        let head = "#subsys_name\thierarchy\tnum_cgroups\tenabled\n";
        assert!(has_memory_hierarchy(&format!(
            "{head}cpu\t0\t5\t1\nmemory\t4\t5\t1\n"
        )));
        assert!(!has_memory_hierarchy(&format!(
            "{head}cpu\t4\t5\t1\nmemory\t0\t5\t1\n"
        )));
        assert!(!has_memory_hierarchy(""));
    }
}
