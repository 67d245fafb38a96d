use crate::caller::{FramePointers, check_advance, check_return_address, frame_record};
use crate::caller_rule::CallerRule;
use crate::code_frames::CodeRule;
use crate::evaluate::{EvaluatedFrame, strip_signature};
use crate::failure::{UnwindFailure, UnwindStop};
use crate::rows::RowCache;
use crate::stack::Missing;
use crate::{AddressSpace, StackMemory, UnwindMachine, UnwindRegisters};
use profile::ProcessAddress;

/// Maximum number of frames of an unwound stack.
pub const MAX_FRAMES: usize = 512;

/// The end of an unwind. The frames found before it are always valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnwindOutcome {
    /// The unwind ended at the root: the tables mark a function without a caller, its return
    /// address is null, or a chain of frame records ends with a null.
    Complete,
    /// The unwind ended at the end of the copied bytes. A switched stack (a signal handler on its
    /// own stack, a coroutine) ends like this, too.
    Truncated,
    /// The unwind ended after [`MAX_FRAMES`] frames.
    TooDeep,
    /// The unwind ended for another reason.
    Failed(UnwindFailure),
}

impl From<UnwindStop> for UnwindOutcome {
    fn from(stop: UnwindStop) -> Self {
        match stop {
            UnwindStop::Missing(Missing::Beyond) => Self::Truncated,
            UnwindStop::Missing(Missing::Below) => Self::Failed(UnwindFailure::NotAdvancing),
            UnwindStop::Failure(failure) => Self::Failed(failure),
        }
    }
}

/// Unwinds stacks. One serves all processes, and caches rules.
pub struct Unwinder {
    pub(crate) rows: RowCache,
}

impl Default for Unwinder {
    fn default() -> Self {
        Self::new()
    }
}

/// Position of a frame during the walk.
struct FramePosition {
    registers: UnwindRegisters,
    /// True if the frame is the innermost one, or was interrupted by a signal, so that it is
    /// anywhere in its function.
    interrupted: bool,
    /// True if a frame record led to the frame.
    by_record: bool,
}

impl FramePosition {
    /// Returns the address of the frame's code: in a caller, one inside the call instruction.
    fn code_address(&self) -> u64 {
        self.registers.pc() - u64::from(!self.interrupted)
    }
}

impl Unwinder {
    /// Makes an unwinder with an empty cache.
    pub fn new() -> Self {
        Self {
            rows: RowCache::new(),
        }
    }

    /// Finds the frames of a stack and puts them into `out`, which is emptied first.
    ///
    /// The innermost frame comes first, at its program counter. A caller is at its return address
    /// less one, inside the call instruction, as in [`profile::StackFrame`]; a function that a
    /// signal interrupted is at its next instruction.
    pub fn unwind(
        &mut self,
        space: &AddressSpace,
        registers: &UnwindRegisters,
        stack: StackMemory<'_>,
        out: &mut Vec<ProcessAddress>,
    ) -> UnwindOutcome {
        out.clear();
        let mut at = FramePosition {
            registers: *registers,
            interrupted: true,
            by_record: false,
        };
        loop {
            if out.len() == MAX_FRAMES {
                return UnwindOutcome::TooDeep;
            }
            let mut place = ProcessAddress(at.code_address());
            let caller = self.step_to_caller(space, &at, stack, &mut place);
            out.push(place);
            match caller {
                Ok(Some(caller)) => at = caller,
                Ok(None) => return UnwindOutcome::Complete,
                Err(stop) => return stop.into(),
            }
        }
    }

    /// Returns the caller of the frame `at`; `None` at the root. Corrects `place` if the frame's
    /// code is only returned to, without a call before it.
    fn step_to_caller(
        &mut self,
        space: &AddressSpace,
        at: &FramePosition,
        stack: StackMemory<'_>,
        place: &mut ProcessAddress,
    ) -> Result<Option<FramePosition>, UnwindStop> {
        let machine = at.registers.machine();
        let mapping = space.mapping_at(at.code_address());
        let found = mapping.and_then(|m| Some((&*m.module, m.image_address(at.code_address())?)));
        let found = found.filter(|(module, _)| module.machine == Some(machine));
        let is_return =
            found.is_some_and(|(module, address)| is_signal_return(module.signal_return, address));
        if is_return {
            place.0 = at.registers.pc();
        }
        let has_stack_pointer = at.registers.get_column(machine.sp_column()).is_some();
        let mut in_register = machine.lr_column().is_some();
        let mut by_record = false;
        let (caller, signal) = if is_return && has_stack_pointer {
            (Some(interrupted_aarch64(&at.registers, stack)?), true)
        } else if let Some((module, address)) = found.filter(|_| !is_return)
            && let Some(row) = self.rows.row_at(module, address)
        {
            if row.signal {
                place.0 = at.registers.pc();
            }
            let frame = EvaluatedFrame {
                module,
                row,
                registers: &at.registers,
                stack,
                interrupted: at.interrupted,
            };
            in_register |= frame.returns_by_register();
            (frame.caller_registers()?, row.signal)
        } else if let Some((module, address)) = found.filter(|_| !is_return)
            && let rule = module.tableless_rule(address)
            && rule != CodeRule::Unknown
        {
            match rule {
                CodeRule::Caller(rule) => {
                    (Some(caller_by_rule(&at.registers, rule, stack)?), false)
                }
                CodeRule::SignalReturn => {
                    place.0 = at.registers.pc();
                    (Some(interrupted_x86_64(&at.registers, stack)?), true)
                }
                CodeRule::Root | CodeRule::Unknown => return Ok(None),
            }
        } else {
            let guess = frameless_caller(space, at, stack);
            by_record = guess.is_none();
            let caller = match guess {
                Some(caller) => Some(caller),
                None => caller_by_record(at, stack)?,
            };
            (caller, false)
        };
        let Some(registers) = caller.filter(|c| c.pc() != 0) else {
            return Ok(None);
        };
        check_caller(at, &registers, signal, in_register)?;
        Ok(Some(FramePosition {
            registers,
            interrupted: signal,
            by_record,
        }))
    }
}

/// Refuses an impossible caller.
fn check_caller(
    at: &FramePosition,
    caller: &UnwindRegisters,
    signal: bool,
    in_register: bool,
) -> Result<(), UnwindStop> {
    check_return_address(caller.pc())?;
    if signal {
        return Ok(()); // a handler may have had a stack of its own, anywhere
    }
    let pointers = |registers: &UnwindRegisters| FramePointers {
        pc: registers.pc(),
        sp: registers.sp(),
    };
    let (from, to) = (pointers(&at.registers), pointers(caller));
    check_advance(from, to, at.interrupted && in_register)
}

/// Returns the caller of a function without tables whose frame size is known. Functions without a
/// frame keep no frame record, so that the frame pointer alone would skip their caller.
fn caller_by_rule(
    callee: &UnwindRegisters,
    rule: CallerRule,
    stack: StackMemory<'_>,
) -> Result<UnwindRegisters, UnwindStop> {
    let machine = callee.machine();
    let base = if rule.from_frame_pointer {
        {
            let column = machine.fp_column();
            let unknown = UnwindFailure::UnknownRegister(column as u16);
            callee.get_column(column).ok_or(unknown)?
        }
    } else {
        callee.sp()
    };
    let frame_address = base.wrapping_add_signed(rule.cfa);
    let word = |offset: i64| stack.read_word(frame_address.wrapping_add_signed(offset));
    let mut caller = *callee;
    for column in (0..machine.pc_column()).filter(|column| *column != machine.fp_column()) {
        caller.forget_column(column);
    }
    if let Some(offset) = rule.frame_pointer {
        caller.set_column(machine.fp_column(), word(offset)?);
    }
    if let Some(offset) = rule.return_address {
        caller.set_column(machine.pc_column(), word(offset)?);
    }
    caller.set_column(machine.sp_column(), frame_address);
    Ok(caller)
}

/// Returns the caller of a function without rules that was interrupted in a known image. It may be
/// assembly without a frame, whose return address is where the call put it.
fn frameless_caller(
    space: &AddressSpace,
    at: &FramePosition,
    stack: StackMemory<'_>,
) -> Option<UnwindRegisters> {
    let (machine, sp) = (at.registers.machine(), at.registers.sp());
    let mapping = space.mapping_at(at.code_address())?;
    if !at.interrupted || !mapping.module.has_tables() {
        return None;
    }
    let (pc, new_sp) = match machine.lr_column() {
        None => (stack.read_word(sp).ok()?, sp.wrapping_add(8)),
        Some(lr) => (strip_signature(machine, at.registers.get_column(lr)?), sp),
    };
    space.mapping_at(pc.wrapping_sub(1))?;
    let mut caller = at.registers;
    caller.set_column(machine.pc_column(), pc);
    caller.set_column(machine.sp_column(), new_sp);
    Some(caller)
}

/// Returns the caller of code without tables by the frame pointer; `None` at the root.
fn caller_by_record(
    at: &FramePosition,
    stack: StackMemory<'_>,
) -> Result<Option<UnwindRegisters>, UnwindStop> {
    let machine = at.registers.machine();
    let fp = at.registers.get_column(machine.fp_column());
    let Some(record) = frame_record(machine, stack, fp, at.registers.sp(), at.by_record)? else {
        return Ok(None);
    };
    let mut caller = at.registers;
    for column in 0..machine.pc_column() {
        caller.forget_column(column);
    }
    caller.set_column(machine.fp_column(), record.fp);
    caller.set_column(machine.sp_column(), fp.unwrap_or(0).wrapping_add(16));
    caller.set_column(machine.pc_column(), record.pc);
    if machine.lr_column().is_some() {
        // A frame record is anywhere in its frame: the stack pointer is above it, but unknown.
        caller.forget_column(machine.sp_column());
    }
    Ok(Some(caller))
}

fn is_signal_return(code: Option<u64>, address: u64) -> bool {
    code.is_some_and(|code| (code.saturating_sub(1)..code.saturating_add(8)).contains(&address))
}

/// Returns the registers that the kernel stored in the `ucontext` before a signal handler.
fn interrupted_x86_64(
    handler: &UnwindRegisters,
    stack: StackMemory<'_>,
) -> Result<UnwindRegisters, UnwindStop> {
    /// DWARF's numbers of the registers from `uc_mcontext` on, up to the program counter.
    const ORDER: [u16; 17] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16];
    const MCONTEXT: u64 = 40;
    let mut new = *handler;
    for (place, column) in (0..).zip(ORDER) {
        let address = handler.sp().wrapping_add(MCONTEXT + 8 * place);
        new.set_column(column.into(), stack.read_word(address)?);
    }
    Ok(new)
}

/// Returns the registers before a signal handler. AArch64's vDSO has no rules that recover all
/// registers of an interrupted function, but the kernel stores them at a fixed place: `siginfo`,
/// then `ucontext` with `uc_mcontext` at its end. (If the handler's frame was passed by its frame
/// pointer alone, that place is unknown, and a frame record made by the kernel leads on.)
fn interrupted_aarch64(
    handler: &UnwindRegisters,
    stack: StackMemory<'_>,
) -> Result<UnwindRegisters, UnwindStop> {
    const SIGINFO: u64 = 128;
    const MCONTEXT: u64 = 176;
    const FAULT_ADDRESS: u64 = 8;
    let first = handler
        .sp()
        .wrapping_add(SIGINFO + MCONTEXT + FAULT_ADDRESS);
    let word = |n: u64| stack.read_word(first.wrapping_add(8 * n));
    let mut new = UnwindRegisters::aarch64(word(32)?, word(31)?, word(29)?, word(30)?);
    for column in 0..UnwindMachine::Aarch64.fp_column() as u16 {
        new = new.with(column, word(column.into())?);
    }
    Ok(new)
}
