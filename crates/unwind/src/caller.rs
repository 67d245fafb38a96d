//! Checks of a caller that both ways of unwinding share: by tables of the image, and by compact ones.

use crate::StackMemory;
use crate::failure::{UnwindFailure, UnwindStop};

/// Program counter and stack pointer of a frame.
#[derive(Clone, Copy)]
pub(crate) struct FramePointers {
    pub pc: u64,
    pub sp: u64,
}

/// Refuses a return address in the first page or in the kernel's half.
pub(crate) fn check_return_address(pc: u64) -> Result<(), UnwindStop> {
    match pc < 4096 || pc >> 63 != 0 {
        true => Err(UnwindFailure::BadReturnAddress.into()),
        false => Ok(()),
    }
}

/// Refuses a caller whose frame does not lie above. An interrupted function whose return address is in a register need not have a frame
/// (`may_stay`).
pub(crate) fn check_advance(
    callee: FramePointers,
    caller: FramePointers,
    may_stay: bool,
) -> Result<(), UnwindStop> {
    let stays = may_stay && caller.pc != callee.pc && caller.sp == callee.sp;
    match caller.sp > callee.sp || stays {
        true => Ok(()),
        false => Err(UnwindFailure::NotAdvancing.into()),
    }
}

/// Reads the two words that a frame pointer leads to: the caller's frame pointer, and the return address. `None` at the root.
pub(crate) fn frame_record(
    stack: StackMemory<'_>,
    fp: Option<u64>,
    sp: u64,
    innermost: bool,
) -> Result<Option<(u64, u64)>, UnwindStop> {
    let fp = fp.ok_or(UnwindFailure::NoTable)?;
    match fp {
        0 if innermost => return Err(UnwindFailure::NoTable.into()),
        0 => return Ok(None),
        _ if fp < sp || fp % 8 != 0 => return Err(UnwindFailure::NoTable.into()),
        _ => {}
    }
    Ok(Some((
        stack.read_word(fp)?,
        stack.read_word(fp.wrapping_add(8))?,
    )))
}
