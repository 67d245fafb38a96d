//! Choice of addresses for stubs near the traced functions, and the buffer for their code.

use super::functions::TracedFunction;
use super::relocate::{Prologue, TraceRefusal, leading_nops};
use crate::maps::{self, ExecutableMapping};
use std::ops::Range;

/// Reach of a relative jump, minus a margin.
const REACH: u64 = (1 << 31) - (1 << 26);
pub(super) const PAGE: u64 = 4096;

/// Buffer for the code of one region.
pub(super) struct CodeWriter {
    pub code: Vec<u8>,
    pub base: u64,
    pub stub: usize,
    pub body: usize,
    /// Addresses to which traced functions return.
    pub returns: Vec<u64>,
}

impl CodeWriter {
    pub fn next_body(&mut self) -> u64 {
        self.body = self.body.next_multiple_of(16);
        self.base + self.body as u64
    }

    pub fn put_body(&mut self, bytes: &[u8]) {
        put_bytes(&mut self.code, self.body, bytes);
        self.body += bytes.len();
    }

    pub fn put_stub(&mut self, bytes: &[u8]) {
        put_bytes(&mut self.code, self.stub, bytes);
        self.stub = (self.stub + bytes.len()).next_multiple_of(32);
    }

    pub fn append(&mut self, bytes: &[u8]) -> u64 {
        let at = self.next_body();
        self.put_body(bytes);
        at
    }
}

fn put_bytes(code: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(to) = code.get_mut(at..at + bytes.len()) {
        to.copy_from_slice(bytes);
    }
}

/// Returns the bytes that replace a function's first instructions: a jump to `to`, and padding.
pub(super) fn entry_jump(prologue: &Prologue, to: u64) -> Result<Vec<u8>, TraceRefusal> {
    let distance = to.wrapping_sub(prologue.at + 5) as i64;
    let distance = i32::try_from(distance).map_err(|_| TraceRefusal::TooFar)?;
    let mut jump = vec![0xe9];
    jump.extend(distance.to_le_bytes());
    jump.resize(prologue.length, 0x90);
    Ok(jump)
}

/// Returns a jump to an arbitrary address.
pub(super) fn far_jump(target: u64) -> Vec<u8> {
    let mut code = vec![0xff, 0x25, 0, 0, 0, 0]; // jmp [rip]
    code.extend(target.to_le_bytes());
    code
}

/// Returns the number of padding bytes between a function and the next one.
pub(super) fn padding_after(
    text: &[u8],
    mapping: &ExecutableMapping,
    function: &TracedFunction,
    next: Option<u64>,
) -> usize {
    let end = (function.offset.0 + function.size).wrapping_sub(mapping.offset) as usize;
    let limit = next.map_or(end.saturating_add(16), |next| {
        next.wrapping_sub(mapping.offset) as usize
    });
    let limit = limit.min(end.saturating_add(16));
    text.get(end..limit).map_or(0, leading_nops)
}

/// Returns free addresses within reach of an image. The nearest gap below the image comes first. In
/// a gap above, the upper end comes first, because memory behind an executable grows upwards.
pub(super) fn free_addresses_near(
    pid: u32,
    reserved: &[Range<u64>],
    image: &Range<u64>,
    size: u64,
) -> Option<u64> {
    let mut taken = maps::mapped_ranges(pid);
    if taken.is_empty() {
        return None; // the process has ended
    }
    taken.extend_from_slice(reserved);
    taken.sort_by_key(|range| range.start);
    let mut free = Vec::new();
    let mut end = 1 << 16;
    for range in taken {
        if range.start > end {
            free.push(end..range.start);
        }
        end = range.end.max(end);
    }
    const MARGIN: u64 = 1 << 16;
    let fits = |gap: &&Range<u64>| gap.end - gap.start >= size + 2 * MARGIN;
    let reaches = |base: &u64| {
        base.abs_diff(image.end) < REACH && (base + size).abs_diff(image.start) < REACH
    };
    let below = free
        .iter()
        .rev()
        .filter(fits)
        .filter(|gap| gap.end <= image.start);
    let above = free
        .iter()
        .filter(fits)
        .filter(|gap| gap.start >= image.end);
    below
        .map(|gap| (gap.end - size - MARGIN) & !(PAGE - 1))
        .chain(above.map(|gap| (gap.end - size - MARGIN) & !(PAGE - 1)))
        .chain(
            free.iter()
                .filter(fits)
                .filter(|gap| gap.start >= image.end)
                .map(|gap| (gap.start + MARGIN).next_multiple_of(PAGE)),
        )
        .find(reaches)
}
