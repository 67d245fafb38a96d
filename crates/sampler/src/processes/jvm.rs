//! A running JVM, as seen from outside: its library and its memory.

use crate::processes::ProcessStat;
use crate::processes::threads::process_file;
use languages::ElfImage;
use languages::jvm::{JvmDescription, JvmMemory, MethodLayout, is_jvm_image};
use object::ReadCache;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::rc::Rc;

/// Maximum number of lines read of a process's list of mappings.
const MOST_MAPPINGS: usize = 100_000;

/// A running JVM.
pub(crate) struct RunningJvm {
    /// Start time of its process, in clock ticks since boot.
    pub started: u64,
    memory: File,
    library: File,
    base: u64,
}

impl RunningJvm {
    /// Returns the JVM of a process; `None` if it has none, or has ended.
    pub fn open(pid: u32) -> Option<Self> {
        let started = ProcessStat::read_process(pid)?.started_ticks;
        let maps = File::open(process_file(pid, "maps")).ok()?;
        let lines = BufReader::new(maps).lines().take(MOST_MAPPINGS);
        let first = lines
            .map_while(Result::ok)
            .find(|line| line.split(' ').nth(2) == Some("00000000") && is_jvm_image(line))?;
        let (range, _) = first.split_once(' ')?;
        let base = u64::from_str_radix(range.split_once('-')?.0, 16).ok()?;
        let library = File::open(process_file(pid, &format!("map_files/{range}"))).ok()?;
        let memory = File::open(process_file(pid, "mem")).ok()?;
        Some(Self {
            started,
            memory,
            library,
            base,
        })
    }

    /// Calls `read` with its memory.
    pub fn with_memory<T>(&self, read: impl FnOnce(&JvmMemory<'_>) -> T) -> T {
        let at = |address: u64, bytes: &mut [u8]| self.memory.read_exact_at(bytes, address).is_ok();
        read(&JvmMemory { read: &at })
    }

    /// Reads the JVM's description of its code and methods; `None` before it has been set up.
    pub fn describe(&self) -> Option<JvmDescription> {
        let library = ReadCache::new(&self.library);
        let image = ElfImage::parse(&library)?;
        self.with_memory(|memory| JvmDescription::read(&image, self.base, memory))
    }
}

/// The JVMs whose methods have names, by process: found where stacks are walked, used where names
/// are read.
#[derive(Clone, Default)]
pub(crate) struct NamedJvms(Rc<RefCell<FxHashMap<u32, (u64, MethodLayout)>>>);

impl NamedJvms {
    /// Adds a JVM; `started` is its start, in clock ticks since boot.
    pub fn add(&self, pid: u32, started: u64, layout: MethodLayout) {
        self.0.borrow_mut().insert(pid, (started, layout));
    }

    pub fn remove(&self, pid: u32) {
        self.0.borrow_mut().remove(&pid);
    }

    pub fn contains(&self, pid: u32) -> bool {
        self.0.borrow().contains_key(&pid)
    }

    /// Returns the layout of the methods of a process, if its start time matches.
    pub fn layout_of(&self, pid: u32, started: u64) -> Option<MethodLayout> {
        let named = self.0.borrow();
        let (known, layout) = named.get(&pid)?;
        (*known == started).then(|| layout.clone())
    }
}
