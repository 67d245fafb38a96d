//! Tells the walks where the JVMs that run have their code.

use crate::bpf::hotspot::hotspot_bytes;
use crate::processes::images::ImageTable;
use crate::processes::maps::ProcessMaps;
use languages::ElfImage;
use languages::jvm::{CodeCache, JvmMemory, is_jvm_image};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use object::ReadCache;
use rustc_hash::FxHashSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// How often new JVMs are looked for: one that starts does not have its code in place at once.
const LOOK: Duration = Duration::from_millis(100);
/// Lines of a process's list of mappings, at most.
const MOST_MAPPINGS: usize = 100_000;

/// The JVMs whose code the walks know.
pub(super) struct JvmStacks {
    map: MapHandle,
    known: FxHashSet<u32>,
    looked: Option<Instant>,
}

impl JvmStacks {
    pub fn new(map: MapHandle) -> Self {
        Self {
            map,
            known: FxHashSet::default(),
            looked: None,
        }
    }

    /// To be called some times a second.
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
            }
            runs
        });
        for pid in running {
            if !self.known.contains(&pid)
                && let Some((cache, started)) = read_code_cache(pid)
            {
                let value = hotspot_bytes(&cache, started);
                // Of more JVMs than the table has room for, the stacks end in compiled code, and that is counted.
                let _ = self.map.update(&pid.to_ne_bytes(), &value, MapFlags::ANY);
                self.known.insert(pid);
            }
        }
    }
}

/// Where a JVM has its code, and when its process started, in clock ticks; `None` if it has ended, or not begun yet.
fn read_code_cache(pid: u32) -> Option<(CodeCache, u64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    // The 22nd of all fields.
    let started = fields.split(' ').nth(19)?.parse().ok()?;
    let maps = File::open(format!("/proc/{pid}/maps")).ok()?;
    let lines = BufReader::new(maps).lines().take(MOST_MAPPINGS);
    let first = lines
        .map_while(Result::ok)
        .find(|line| line.split(' ').nth(2) == Some("00000000") && is_jvm_image(line))?;
    let (range, _) = first.split_once(' ')?;
    let base = u64::from_str_radix(range.split_once('-')?.0, 16).ok()?;
    let library = File::open(format!("/proc/{pid}/map_files/{range}")).ok()?;
    let library = ReadCache::new(library);
    let image = ElfImage::parse(&library)?;
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    let read = |address: u64, bytes: &mut [u8]| memory.read_exact_at(bytes, address).is_ok();
    let cache = CodeCache::read(&image, base, &JvmMemory { read: &read })?;
    Some((cache, started))
}
