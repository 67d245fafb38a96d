//! Layout of the tables that user space shares with `collect.bpf.c`: keys and values, byte by byte.

use profile::CallGraph;

/// Same value as in collect.bpf.c.
pub(crate) const MAX_EVENTS: usize = 32;
const MAX_FRAMES: usize = 127;
/// Maximum number of entries of a user stack, as in unwind_walk.h.
pub(crate) const STACK_PIECES: usize = 4;
// The documented limit on a stack's depth must be the one that the programs follow.
const _: () = assert!(CallGraph::Tables.deepest() == STACK_PIECES * MAX_FRAMES);
const _: () = assert!(CallGraph::FramePointer.deepest() == MAX_FRAMES);
const NAME_LEN: usize = 16;
const CGROUP_LEVELS: usize = 10;
const CGROUP_NAME: usize = 96;
/// `enum place_kind`.
pub(crate) const PLACE_FILE: u8 = 0;
pub(crate) const PLACE_KERNEL: u8 = 1;

/// `struct place`: a place on one CPU, with its samples; free if it has none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub offset: u64,
    pub inode: u64,
    pub device: u32,
    generation: u32,
    pub tgid: u32,
    pub tid: u32,
    space: u32,
    pub event: u8,
    pub kind: u8,
    first_high: u16,
    first_low: u32,
    pub count: u32,
    pub name: [u8; NAME_LEN],
}

impl Place {
    /// Returns the time of the first sample, on the monotonic clock; up to a microsecond too late.
    pub fn first_ns(&self) -> u64 {
        (u64::from(self.first_high) << 32 | u64::from(self.first_low)) << 10
    }

    /// Returns the generation of the file, if it is a place in one.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Returns the number of the control group.
    pub fn cgroup(&self) -> u32 {
        match self.kind {
            PLACE_FILE | PLACE_KERNEL => self.space,
            _ => self.generation,
        }
    }
}

/// `struct stack_key`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StackKey {
    pub user: u64,
    pub kernel: u64,
    pub tgid: u32,
    pub tid: u32,
    pub space: u32,
    pub cgroup: u32,
    pub event: u16,
    pub cpu: u16,
    pub labels: u32,
    pub name: [u8; NAME_LEN],
}

/// `struct thread_key`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadKey {
    pub tgid: u32,
    pub tid: u32,
    pub cgroup: u32,
    pub event: u16,
    pub cpu: u16,
    pub name: [u8; NAME_LEN],
}

/// `struct run`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpuRun {
    pub count: Count,
    pub thread: ThreadKey,
}

/// `struct off_key`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OffKey {
    pub thread: StackKey,
    pub waker_user: u64,
    pub waker_kernel: u64,
    pub waker_tgid: u32,
    pub waker_tid: u32,
    pub waker_space: u32,
    pub unused: u32,
    pub waker_name: [u8; NAME_LEN],
}

/// `struct tally`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub count: u64,
    pub first_ns: u64,
}

/// `struct wait_tally`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wait {
    pub count: u64,
    pub first_ns: u64,
    pub weight_ns: u64,
}

/// `struct waiting`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiting {
    pub key: OffKey,
    pub since_ns: u64,
    pub woken_ns: u64,
}

/// `struct frames`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frames {
    count: u64,
    address: [u64; MAX_FRAMES],
}

impl Default for Frames {
    fn default() -> Self {
        Self {
            count: 0,
            address: [0; MAX_FRAMES],
        }
    }
}

impl Frames {
    /// Makes the first entry of these frames.
    #[cfg(test)]
    pub fn of_words(words: &[u64]) -> Self {
        let mut frames = Self {
            count: words.len() as u64,
            ..Self::default()
        };
        let kept = words.len().min(MAX_FRAMES);
        frames.address[..kept].copy_from_slice(&words[..kept]);
        frames
    }

    /// Returns the number of the entry that continues a deep stack.
    pub fn next(&self, number: u64) -> Option<u64> {
        (self.count > MAX_FRAMES as u64).then(|| number.wrapping_add(2))
    }

    /// Returns the addresses in this entry, innermost first.
    pub fn addresses(&self) -> &[u64] {
        &self.address[..(self.count as usize).min(MAX_FRAMES)]
    }
}

/// `struct accounting`, summed over the CPUs.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Accounting {
    pub taken: u64,
    pub stored: u64,
    pub dropped: u64,
    pub inserted: u64,
    pub spent_ns: u64,
}

/// `struct cgroup_path`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct CgroupPath {
    levels: u32,
    cut: u32,
    names: [[u8; CGROUP_NAME]; CGROUP_LEVELS],
}

impl Default for CgroupPath {
    fn default() -> Self {
        Self {
            levels: 0,
            cut: 0,
            names: [[0; CGROUP_NAME]; CGROUP_LEVELS],
        }
    }
}

impl CgroupPath {
    /// Returns the path from the root of its hierarchy; for a very deep one the end, after `…`.
    pub fn text(&self) -> String {
        let names = self.names.iter().take(self.levels as usize).rev();
        let mut text = String::from(if self.cut != 0 { "…" } else { "" });
        for name in names {
            let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
            text.push('/');
            text.push_str(&String::from_utf8_lossy(&name[..end]));
        }
        if text.is_empty() {
            "/".to_owned()
        } else {
            text
        }
    }
}

/// `struct control`, the programs' variables.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Control {
    pub active: u32,
    pub unused: u32,
    pub until_ns: u64,
    pub ceased_ns: u64,
    pub overdue: u64,
}

/// A type whose bytes the kernel may fill in: plain numbers without padding.
///
/// # Safety
/// Every bit pattern must be a valid value.
pub(crate) unsafe trait Plain: Copy + Default {}
// SAFETY: all are repr(C) structs of integers.
unsafe impl Plain for Place {}
// SAFETY: as above.
unsafe impl Plain for StackKey {}
// SAFETY: as above.
unsafe impl Plain for ThreadKey {}
// SAFETY: as above.
unsafe impl Plain for OffKey {}
// SAFETY: as above.
unsafe impl Plain for Count {}
// SAFETY: as above.
unsafe impl Plain for CpuRun {}
// SAFETY: as above.
unsafe impl Plain for Wait {}
// SAFETY: as above.
unsafe impl Plain for Waiting {}
// SAFETY: as above.
unsafe impl Plain for Frames {}
// SAFETY: as above.
unsafe impl Plain for Accounting {}
// SAFETY: integers and bytes, without padding: four of them fill eight bytes before an eight-byte
// field.
unsafe impl Plain for CgroupPath {}
// SAFETY: an integer.
unsafe impl Plain for u64 {}
// SAFETY: an integer.
unsafe impl Plain for u32 {}
