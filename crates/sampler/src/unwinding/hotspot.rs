//! Gives the walks the addresses of the code of running JVMs.

use crate::bpf::hotspot::hotspot_bytes;
use crate::processes::images::ImageTable;
use crate::processes::jvm::{NamedJvms, RunningJvm};
use crate::processes::maps::ProcessMaps;
use languages::jvm::{JvmDescription, is_jvm_image};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use rustc_hash::FxHashSet;
use std::time::{Duration, Instant};

/// Time between two searches for new JVMs: one that starts does not have its code in place at once.
const LOOK: Duration = Duration::from_millis(100);

/// JVMs whose code the walks know.
pub(super) struct JvmStacks {
    map: MapHandle,
    known: FxHashSet<u32>,
    /// JVMs among them whose methods have names.
    named: NamedJvms,
    looked: Option<Instant>,
}

impl JvmStacks {
    pub fn new(map: MapHandle, named: NamedJvms) -> Self {
        Self {
            map,
            known: FxHashSet::default(),
            named,
            looked: None,
        }
    }

    /// Returns whether the methods of a process have names without its help.
    pub fn has_names(&self, pid: u32) -> bool {
        self.named.contains(pid)
    }

    /// Looks for new JVMs. Call it several times a second.
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
                // It is not there if the kernel refused it.
                let _ = self.map.delete(&pid.to_ne_bytes());
                self.named.remove(*pid);
            }
            runs
        });
        for pid in running {
            if !self.known.contains(&pid)
                && let Some(jvm) = RunningJvm::open(pid)
                && let Some(JvmDescription { cache, methods }) = jvm.describe()
            {
                let value = hotspot_bytes(&cache, methods.as_ref(), jvm.started);
                if let Some(methods) = methods {
                    self.named.add(pid, jvm.started, methods);
                }
                // Of more JVMs than the table has room for, the stacks end in compiled code, and that is counted.
                let _ = self.map.update(&pid.to_ne_bytes(), &value, MapFlags::ANY);
                self.known.insert(pid);
            }
        }
    }
}
