//! A JVM that runs, as seen from outside: its library and its memory.

use languages::ElfImage;
use languages::jvm::{CodeCache, JvmMemory, MethodLayout, is_jvm_image};
use object::ReadCache;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;

/// Lines of a process's list of mappings, at most.
const MOST_MAPPINGS: usize = 100_000;

/// A JVM that runs.
pub(crate) struct RunningJvm {
    /// When its process started, in clock ticks after the start of the machine.
    pub started: u64,
    memory: File,
    library: File,
    base: u64,
}

impl RunningJvm {
    /// Returns the JVM of a process; `None` if it has none, or has ended.
    pub fn open(pid: u32) -> Option<Self> {
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
        let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
        Some(Self {
            started,
            memory,
            library,
            base,
        })
    }

    /// Calls with its memory.
    pub fn with_memory<T>(&self, read: impl FnOnce(&JvmMemory<'_>) -> T) -> T {
        let at = |address: u64, bytes: &mut [u8]| self.memory.read_exact_at(bytes, address).is_ok();
        read(&JvmMemory { read: &at })
    }

    /// Where it has its code; `None` if it has not begun yet.
    pub fn code_cache(&self) -> Option<CodeCache> {
        let library = ReadCache::new(&self.library);
        let image = ElfImage::parse(&library)?;
        self.with_memory(|memory| CodeCache::read(&image, self.base, memory))
    }

    /// Where its methods have what they are called; `None` if that is not known.
    pub fn method_layout(&self) -> Option<MethodLayout> {
        let library = ReadCache::new(&self.library);
        let image = ElfImage::parse(&library)?;
        self.with_memory(|memory| MethodLayout::read(&image, self.base, memory))
    }
}
