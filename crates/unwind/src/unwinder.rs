use crate::evaluate::{Frame, strip};
use crate::failure::{Failure, Stop};
use crate::rows::Rows;
use crate::stack::Missing;
use crate::{AddressSpace, Machine, Registers, Stack};
use profile::ProcessAddress;

/// The longest stack that is unwound, in frames.
pub const MAX_FRAMES: usize = 512;

/// How an unwind ended. The frames found until then are good in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// At the root: the tables say that the function has no caller, or the return address or the
    /// frame pointer that leads to it is null.
    Complete,
    /// At the end of the copied bytes. A stack that was switched (a signal handler on a stack of
    /// its own, a coroutine) ends like this, too.
    Truncated,
    /// After [`MAX_FRAMES`] frames.
    TooDeep,
    /// For another reason.
    Failed(Failure),
}

/// Unwinds stacks. One serves all processes; it keeps the rules that it looked up.
pub struct Unwinder {
    pub(crate) rows: Rows,
}

impl Default for Unwinder {
    fn default() -> Self {
        Self::new()
    }
}

/// A frame on the way up.
struct Position {
    registers: Registers,
    /// Stands anywhere in its function: innermost, or interrupted by a signal.
    interrupted: bool,
}

impl Position {
    /// Where the frame stands: in a caller, inside the call instruction.
    fn address(&self) -> u64 {
        self.registers.pc() - u64::from(!self.interrupted)
    }
}

impl Unwinder {
    /// An unwinder that has seen nothing yet.
    pub fn new() -> Self {
        Self { rows: Rows::new() }
    }

    /// Finds the frames of a stack and puts them into `out`, which is emptied first.
    ///
    /// The innermost frame comes first, at its program counter. A caller stands at its return
    /// address less one, inside the call instruction, as [`profile::StackFrame`] wants it; a
    /// function that a signal interrupted stands at the instruction that it was to execute next.
    pub fn unwind(
        &mut self,
        space: &AddressSpace,
        registers: &Registers,
        stack: Stack<'_>,
        out: &mut Vec<ProcessAddress>,
    ) -> Outcome {
        out.clear();
        let mut at = Position {
            registers: *registers,
            interrupted: true,
        };
        loop {
            if out.len() == MAX_FRAMES {
                return Outcome::TooDeep;
            }
            let mut place = ProcessAddress(at.address());
            let caller = self.step(space, &at, stack, out.is_empty(), &mut place);
            out.push(place);
            match caller {
                Ok(Some(caller)) => at = caller,
                Ok(None) => return Outcome::Complete,
                Err(Stop::Missing(Missing::Beyond)) => return Outcome::Truncated,
                Err(Stop::Missing(Missing::Below)) => {
                    return Outcome::Failed(Failure::NotAdvancing);
                }
                Err(Stop::Failure(failure)) => return Outcome::Failed(failure),
            }
        }
    }

    /// The caller of the frame `at`; `None` at the root. Puts `place` right where the frame's code
    /// is only returned to, and no call stands before it.
    fn step(
        &mut self,
        space: &AddressSpace,
        at: &Position,
        stack: Stack<'_>,
        first: bool,
        place: &mut ProcessAddress,
    ) -> Result<Option<Position>, Stop> {
        let machine = at.registers.machine();
        let mapping = space.find(at.address());
        let found = mapping.and_then(|m| Some((&*m.module, m.image_address(at.address())?)));
        let found = found.filter(|(module, _)| module.machine == Some(machine));
        let (caller, signal) = if let Some((module, address)) = found
            && is_signal_return(module.signal_return, address)
        {
            place.0 = at.registers.pc();
            (Some(interrupted_aarch64(&at.registers, stack)?), true)
        } else if let Some((module, address)) = found
            && let Some(row) = self.rows.get(module, address)
        {
            if row.signal {
                place.0 = at.registers.pc();
            }
            let frame = Frame {
                module,
                row,
                registers: &at.registers,
                stack,
                interrupted: at.interrupted,
            };
            (frame.caller()?, row.signal)
        } else {
            (without_table(space, at, stack, first)?, false)
        };
        let Some(registers) = caller.filter(|c| c.pc() != 0) else {
            return Ok(None);
        };
        check(at, &registers, signal)?;
        Ok(Some(Position {
            registers,
            interrupted: signal,
        }))
    }
}

/// Refuses a caller that cannot be one.
fn check(at: &Position, caller: &Registers, signal: bool) -> Result<(), Stop> {
    // Neither in the first page nor in the kernel's half.
    if caller.pc() < 4096 || caller.pc() >> 63 != 0 {
        return Err(Failure::BadReturnAddress.into());
    }
    // A handler may have had a stack of its own, anywhere. AArch64's innermost function need not
    // have a frame.
    let leaf =
        at.interrupted && caller.machine().lr().is_some() && caller.pc() != at.registers.pc();
    let advances = caller.sp() > at.registers.sp() || leaf && caller.sp() == at.registers.sp();
    if signal || advances {
        Ok(())
    } else {
        Err(Failure::NotAdvancing.into())
    }
}

/// The caller of code without tables: by the frame pointer; but a function that was interrupted in
/// a known image may be assembly without a frame, whose return address is where a call put it.
fn without_table(
    space: &AddressSpace,
    at: &Position,
    stack: Stack<'_>,
    first: bool,
) -> Result<Option<Registers>, Stop> {
    let (machine, sp) = (at.registers.machine(), at.registers.sp());
    let mut caller = at.registers;
    if at.interrupted
        && space
            .find(at.address())
            .is_some_and(|m| m.module.has_tables())
    {
        let (pc, new_sp) = match machine.lr() {
            None => (stack.word(sp).ok(), sp.wrapping_add(8)),
            Some(lr) => (at.registers.get(lr).map(|pc| strip(machine, pc)), sp),
        };
        if let Some(pc) = pc.filter(|pc| space.find(pc.wrapping_sub(1)).is_some()) {
            caller.set(machine.pc(), pc);
            caller.set(machine.sp(), new_sp);
            return Ok(Some(caller));
        }
    }
    let fp = at.registers.get(machine.fp()).ok_or(Failure::NoTable)?;
    match fp {
        0 if first => return Err(Failure::NoTable.into()),
        0 => return Ok(None),
        _ if fp < sp || fp % 8 != 0 => return Err(Failure::NoTable.into()),
        _ => {}
    }
    let (saved, pc) = (stack.word(fp)?, stack.word(fp.wrapping_add(8))?);
    for column in 0..machine.pc() {
        caller.forget(column);
    }
    caller.set(machine.fp(), saved);
    caller.set(machine.sp(), fp.wrapping_add(16));
    caller.set(machine.pc(), strip(machine, pc));
    Ok(Some(caller))
}

fn is_signal_return(code: Option<u64>, address: u64) -> bool {
    code.is_some_and(|code| (code.saturating_sub(1)..code.saturating_add(8)).contains(&address))
}

/// AArch64's vDSO has no rules that recover all registers of an interrupted function, but the
/// kernel put them at a fixed place: `siginfo`, then `ucontext` with `uc_mcontext` at its end.
fn interrupted_aarch64(handler: &Registers, stack: Stack<'_>) -> Result<Registers, Stop> {
    const SIGINFO: u64 = 128;
    const MCONTEXT: u64 = 176;
    const FAULT_ADDRESS: u64 = 8;
    let first = handler
        .sp()
        .wrapping_add(SIGINFO + MCONTEXT + FAULT_ADDRESS);
    let word = |n: u64| stack.word(first.wrapping_add(8 * n));
    let mut new = Registers::aarch64(word(32)?, word(31)?, word(29)?, word(30)?);
    for column in 0..Machine::Aarch64.fp() as u16 {
        new = new.with(column, word(column.into())?);
    }
    Ok(new)
}
