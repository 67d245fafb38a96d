//! Passes the addresses of running JVMs' code to the walks.

use crate::bpf::hotspot::hotspot_bytes;
use crate::processes::images::ImageTable;
use crate::processes::jvm::{NamedJvms, RunningJvm};
use crate::processes::maps::ProcessMaps;
use languages::jvm::{JvmDescription, is_jvm_image};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use rustc_hash::{FxHashMap, FxHashSet};
use std::time::{Duration, Instant};

/// Time between two searches for new JVMs: a starting one has no code for a while.
const LOOK: Duration = Duration::from_millis(100);
/// Longest time until a JVM without a readable description of its code is read again.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A JVM without a readable description of its code.
struct SilentJvm {
    since: Instant,
    next: Instant,
}

/// JVMs whose code the walks know.
pub(super) struct JvmStacks {
    map: MapHandle,
    known: FxHashSet<u32>,
    /// JVMs that are starting or damaged. Each look takes some milliseconds, so looks become ever
    /// rarer.
    silent: FxHashMap<u32, SilentJvm>,
    /// JVMs among them whose methods have names.
    named: NamedJvms,
    looked: Option<Instant>,
}

impl JvmStacks {
    pub fn new(map: MapHandle, named: NamedJvms) -> Self {
        Self {
            map,
            known: FxHashSet::default(),
            silent: FxHashMap::default(),
            named,
            looked: None,
        }
    }

    /// Returns whether the names of a process's methods are known without its help.
    pub fn has_names(&self, pid: u32) -> bool {
        self.named.contains(pid)
    }

    /// Searches for new JVMs. Called several times a second.
    pub fn look(&mut self, images: &ImageTable, maps: &ProcessMaps) {
        let now = Instant::now();
        if self.looked.is_some_and(|looked| now - looked < LOOK) {
            return;
        }
        self.looked = Some(now);
        let libraries = images.with_path(is_jvm_image);
        if libraries.is_empty() {
            return;
        }
        let running = maps.processes_with(&libraries);
        self.known.retain(|pid| {
            let runs = running.contains(pid);
            if !runs {
                // The entry is missing if the kernel refused it.
                let _ = self.map.delete(&pid.to_ne_bytes());
                self.named.remove(*pid);
            }
            runs
        });
        self.silent.retain(|pid, _| running.contains(pid));
        for pid in running {
            let is_due = self.silent.get(&pid).is_none_or(|jvm| jvm.next <= now);
            if is_due && !self.known.contains(&pid) {
                self.add_jvm(pid, now);
            }
        }
    }

    fn add_jvm(&mut self, pid: u32, now: Instant) {
        let described = RunningJvm::open(pid).and_then(|jvm| Some((jvm.started, jvm.describe()?)));
        let Some((started, JvmDescription { cache, methods })) = described else {
            let first = SilentJvm {
                since: now,
                next: now,
            };
            let jvm = self.silent.entry(pid).or_insert(first);
            jvm.next = now + ((now - jvm.since) / 4).clamp(LOOK, LONGEST_PAUSE);
            return;
        };
        let value = hotspot_bytes(&cache, methods.as_ref(), started);
        if let Some(methods) = methods {
            self.named.add(pid, started, methods);
        }
        // Beyond the table's size, stacks end in compiled code, which is counted.
        let _ = self.map.update(&pid.to_ne_bytes(), &value, MapFlags::ANY);
        self.silent.remove(&pid);
        self.known.insert(pid);
    }
}
