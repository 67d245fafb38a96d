//! Detection of busy-waiting code.

use crate::code::{PlaceAnswer, TargetCode};
use runtime_abi::Page;
use sampler::process_file;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes searched on each side: busy-waiting loops are short.
const NEAR: u64 = 24;

/// Records in the page the meaning of the code at an address, and whether it busy-waits.
pub(crate) fn set_place(page: &Page, code: &mut TargetCode, address: u64, answer: PlaceAnswer) {
    for (copy, line) in code.fragments_mut().take_unsaid() {
        page.set_whole(copy, line);
    }
    let is_set = page.set_place(address, answer.place, answer.steps);
    if is_set && waits_by_looking(code.pid(), address) {
        page.note_spinning(address);
    }
}

/// Returns whether the code around an address contains a spin hint: x86's `pause`, AArch64's
/// `yield` and `isb`, of which the last is that of Rust and jemalloc. Loops without a hint are not
/// detected.
fn waits_by_looking(pid: u32, address: u64) -> bool {
    let from = address.saturating_sub(NEAR);
    // A loop at the start or end of a mapping has less around it.
    let read = |from: u64, length: u64| {
        let mut code = vec![0; length as usize];
        let memory = File::open(process_file(pid, "mem")).ok()?;
        memory.read_exact_at(&mut code, from).ok()?;
        Some(code)
    };
    let code = read(from, 2 * NEAR).or_else(|| read(address, NEAR));
    code.is_some_and(|code| has_hint(&code, address - from))
}

#[cfg(target_arch = "x86_64")]
fn has_hint(code: &[u8], _: u64) -> bool {
    code.windows(2).any(|bytes| bytes == [0xf3, 0x90])
}

#[cfg(target_arch = "aarch64")]
fn has_hint(code: &[u8], before: u64) -> bool {
    const YIELD: u32 = 0xd503_203f;
    const ISB: u32 = 0xd503_3fdf;
    let instructions = code.get(before as usize % 4..).unwrap_or_default();
    instructions.chunks_exact(4).any(|bytes| {
        let word = bytes.try_into().map_or(0, u32::from_le_bytes);
        matches!(word, YIELD | ISB)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn wait_for(word: &std::sync::atomic::AtomicBool) {
        while !word.load(std::sync::atomic::Ordering::Acquire) {
            std::hint::spin_loop();
        }
    }

    #[inline(never)]
    fn add(of: u64) -> u64 {
        (0..of).map(std::hint::black_box).sum()
    }

    #[test]
    fn a_loop_that_waits_is_told_from_one_that_works() {
        wait_for(&std::sync::atomic::AtomicBool::new(true));
        assert_eq!(add(4), 6);
        let pid = std::process::id();
        let near =
            |function: usize| (0..64).any(|at| waits_by_looking(pid, (function + at) as u64));
        assert!(near(wait_for as *const () as usize));
        assert!(!waits_by_looking(pid, 1));
    }
}
