//! Patches of the target's code that jump to our code, with the original bytes.
//!
//! The threads of a running process may be anywhere. So we stop all threads while we write and
//! revert jumps. No thread may be inside of the overwritten bytes, or return there.

use crate::Error;
use crate::attach::{StoppedProcess, StoppedThread, refusal};
use runtime_abi::trace::{Local, remains};
use std::mem::offset_of;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(2);
/// Number of attempts before functions with threads inside their first instructions are left out.
const TRIES: u32 = 100;
/// Number of bytes of a stack that are searched for return addresses.
const STACK: usize = 64 << 10;
/// The same for a thread that is no longer traced. Its stack is the only source about its
/// unfinished executions.
const WHOLE_STACK: usize = 8 << 20;
/// Number of bytes of a stack that a call into the runtime takes at most.
const CALL: usize = 8 << 10;

/// Original bytes of the target's code, and their replacement.
#[derive(Clone)]
pub(super) struct Patch {
    pub at: u64,
    pub old: Vec<u8>,
    pub new: Vec<u8>,
}

impl Patch {
    /// Returns the addresses after the first byte. No thread may be there when the patch is
    /// written.
    fn inside(&self) -> Range<u64> {
        self.at + 1..self.at + self.new.len() as u64
    }

    /// Returns whether the original bytes are still there. The library may have been closed.
    fn has_old(&self, stopped: &StoppedProcess) -> bool {
        let mut now = vec![0; self.old.len()];
        let read = stopped.memory.read_exact_at(&mut now, self.at);
        read.is_ok() && now == self.old
    }
}

/// Writes jumps. `patches` are ordered by address. Returns the patches that were left out, because
/// a thread is inside or because the code has changed. `guard` is the runtime's own thread.
pub(super) fn place_patches(pid: u32, guard: u32, patches: &[Patch]) -> Result<Vec<u64>, Error> {
    for tried in 1.. {
        if let Some(stopped) = StoppedProcess::stop_threads(pid)? {
            let mut left_out = Vec::new();
            for thread in stopped.threads(guard) {
                let words = thread.stack_words(STACK);
                let places = words.into_iter().chain([thread.instruction()]);
                left_out.extend(places.filter_map(|place| patch_around(patches, place)));
            }
            if left_out.is_empty() || tried > TRIES {
                let other = patches.iter().filter(|patch| !patch.has_old(&stopped));
                left_out.extend(other.map(|patch| patch.at));
                left_out.sort_unstable();
                left_out.dedup();
                write_patches(pid, &stopped, patches, &left_out)?;
                return Ok(left_out);
            }
        }
        if tried > 2 * TRIES {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    Err(refusal(
        pid,
        "its threads cannot be stopped together: one of them waits for a device; try again",
    ))
}

fn write_patches(
    pid: u32,
    stopped: &StoppedProcess,
    patches: &[Patch],
    left_out: &[u64],
) -> Result<(), Error> {
    let placed = patches
        .iter()
        .filter(|patch| left_out.binary_search(&patch.at).is_err());
    for (number, patch) in placed.clone().enumerate() {
        if stopped.memory.write_all_at(&patch.new, patch.at).is_err() {
            for before in placed.take(number + 1) {
                let _ = stopped.memory.write_all_at(&before.old, before.at);
            }
            return Err(refusal(pid, "its code cannot be written to"));
        }
    }
    Ok(())
}

/// Returns the address of the patch that contains an address after its first byte.
fn patch_around(patches: &[Patch], place: u64) -> Option<u64> {
    let behind = patches.partition_point(|patch| patch.at < place);
    let patch = patches.get(behind.checked_sub(1)?)?;
    patch.inside().contains(&place).then_some(patch.at)
}

/// Patches and code to revert.
pub(super) struct PlacedCode<'a> {
    pub patches: &'a [Patch],
    /// Ranges of the code that the patches jump to.
    pub code: &'a [Range<u64>],
    /// Ranges of the runtime's code.
    pub runtime: &'a [Range<u64>],
    /// Offset of a thread's pointer to its [`Local`] from the thread pointer, in bytes.
    pub local: i64,
    /// The runtime's own thread.
    pub guard: u32,
}

/// State of the process after the patches were reverted.
pub(super) struct Remains {
    /// One of [`remains`].
    pub kind: u32,
    /// Addresses of the threads' [`Local`]s. The threads no longer have pointers to them.
    pub locals: Vec<u64>,
}

/// Reverts the patches, and the threads' pointers to their state. Returns `None` if the process
/// cannot be stopped.
pub(super) fn take_patches_back(pid: u32, placed: &PlacedCode<'_>) -> Option<Remains> {
    for tried in 1..=2 * TRIES {
        if let Ok(Some(stopped)) = StoppedProcess::stop_threads(pid) {
            let busy = stopped
                .threads(placed.guard)
                .any(|thread| placed.is_in_runtime(&stopped, &thread));
            if !busy || tried > TRIES {
                return Some(placed.take_back(&stopped, busy));
            }
        }
        std::thread::sleep(PAUSE);
    }
    None
}

impl PlacedCode<'_> {
    fn take_back(&self, stopped: &StoppedProcess, busy: bool) -> Remains {
        for patch in self.patches {
            let mut now = vec![0; patch.new.len()];
            let read = stopped.memory.read_exact_at(&mut now, patch.at);
            // The library may have been closed.
            if read.is_ok() && now == patch.new {
                let _ = stopped.memory.write_all_at(&patch.old, patch.at);
            }
        }
        let mut locals = Vec::new();
        let mut used = false;
        for thread in stopped.threads(self.guard) {
            let pointer = thread.thread_pointer().wrapping_add_signed(self.local);
            let local = word_at(stopped, pointer).unwrap_or(0);
            if local > BUSY {
                let _ = stopped.memory.write_all_at(&[0; 8], pointer);
                let field = |offset: usize| word_at(stopped, local + offset as u64);
                used |= field(offset_of!(Local, top)) != field(offset_of!(Local, base));
                locals.push(local);
            }
            let depth = if local == BUSY { WHOLE_STACK } else { STACK };
            let words = thread.stack_words(depth);
            let mut places = words.into_iter().chain([thread.instruction()]);
            used |= places.any(|place| is_within(self.code, place));
        }
        let kind = match (busy, used) {
            (true, _) => remains::THREADS,
            (false, true) => remains::CODE,
            (false, false) => remains::NOTHING,
        };
        Remains { kind, locals }
    }

    /// Returns whether the thread is in a call into the runtime. After the call it uses its old
    /// state.
    fn is_in_runtime(&self, stopped: &StoppedProcess, thread: &StoppedThread<'_>) -> bool {
        let pointer = thread.thread_pointer().wrapping_add_signed(self.local);
        let words = || thread.stack_words(CALL).into_iter();
        let mut places = words().chain([thread.instruction()]);
        // Other threads without state are no longer traced.
        word_at(stopped, pointer) == Some(BUSY) && places.any(|at| is_within(self.runtime, at))
    }
}

/// Value of a thread's pointer if the thread is not traced, or is in the runtime.
const BUSY: u64 = 1;

fn is_within(ranges: &[Range<u64>], place: u64) -> bool {
    ranges.iter().any(|range| range.contains(&place))
}

fn word_at(stopped: &StoppedProcess, at: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    stopped.memory.read_exact_at(&mut bytes, at).ok()?;
    Some(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_inside_of_patches_are_found() {
        let patch = |at, length| Patch {
            at,
            old: vec![0x90; length],
            new: vec![0xe9; length],
        };
        let patches = [patch(100, 5), patch(110, 8)];
        let found = |place| patch_around(&patches, place);
        assert_eq!([99, 100, 105, 110, 118].map(found), [None; 5]);
        assert_eq!([101, 104].map(found), [Some(100); 2]);
        assert_eq!([111, 117].map(found), [Some(110); 2]);
    }
}
