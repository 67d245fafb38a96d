//! Checks of a caller for both kinds of unwinding: by the image's tables, and by compact ones.

use crate::evaluate::strip_signature;
use crate::failure::{UnwindFailure, UnwindStop};
use crate::{StackMemory, UnwindMachine};

/// Program counter and stack pointer of a frame.
#[derive(Clone, Copy)]
pub(crate) struct FramePointers {
    pub pc: u64,
    pub sp: u64,
}

/// Refuses a return address in the first page or in the kernel's half.
pub(crate) fn check_return_address(pc: u64) -> Result<(), UnwindStop> {
    if pc < 4096 || pc >> 63 != 0 {
        Err(UnwindFailure::BadReturnAddress.into())
    } else {
        Ok(())
    }
}

/// Refuses a caller whose frame is not above the callee's. An interrupted function whose return
/// address is in a register need not have a frame (`may_stay`).
pub(crate) fn check_advance(
    callee: FramePointers,
    caller: FramePointers,
    may_stay: bool,
) -> Result<(), UnwindStop> {
    let stays = may_stay && caller.pc != callee.pc && caller.sp == callee.sp;
    if caller.sp > callee.sp || stays {
        Ok(())
    } else {
        Err(UnwindFailure::NotAdvancing.into())
    }
}

/// The two words at a frame pointer.
pub(crate) struct FrameRecord {
    /// Frame pointer of the caller.
    pub fp: u64,
    /// Return address, without a signature.
    pub pc: u64,
}

/// Reads the frame record of a function. Returns `None` at the root: a null ends the chain of
/// records that led there (`by_record`). If a table or a guess led to the frame, the register may
/// hold the zero of a function that keeps no frame pointer.
pub(crate) fn frame_record(
    machine: UnwindMachine,
    stack: StackMemory<'_>,
    fp: Option<u64>,
    sp: u64,
    by_record: bool,
) -> Result<Option<FrameRecord>, UnwindStop> {
    let root = || {
        if by_record {
            Ok(None)
        } else {
            Err(UnwindStop::from(UnwindFailure::NoTable))
        }
    };
    let fp = fp.ok_or(UnwindFailure::NoTable)?;
    if fp == 0 {
        return root();
    }
    if fp < sp || fp % 8 != 0 {
        return Err(UnwindFailure::NoTable.into());
    }
    let record = FrameRecord {
        fp: stack.read_word(fp)?,
        pc: strip_signature(machine, stack.read_word(fp.wrapping_add(8))?),
    };
    match record.pc {
        0 => root(),
        _ => Ok(Some(record)),
    }
}
