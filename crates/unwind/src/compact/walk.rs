//! What the collector's BPF program does with compact tables, step by step the same.

use super::rule::{BASE_LOST, CompactFrame, CompactKind, CompactReturn, CompactRule};
use super::table::CompactTable;
use crate::evaluate::strip;
use crate::failure::{Failure, Stop};
use crate::stack::Missing;
use crate::{AddressSpace, MAX_FRAMES, Machine, Outcome, Registers, Stack};
use profile::ProcessAddress;
use rustc_hash::FxHashMap;

/// Unwinds stacks by [`CompactTable`]s: the model that `unwind.h` of crate `sampler` is held to.
///
/// Of the registers only program counter, stack pointer, frame pointer and link register are
/// followed from frame to frame.
#[derive(Default)]
pub struct CompactUnwinder {
    /// By the number of the module.
    tables: FxHashMap<u64, CompactTable>,
}

/// A frame on the way up.
#[derive(Clone, Copy)]
struct Position {
    pc: u64,
    sp: u64,
    /// `None`: the tables do not say where it is.
    fp: Option<u64>,
    /// Likewise of the base register.
    base: Option<u64>,
    lr: u64,
    /// It stands anywhere in its function: innermost, or interrupted by a signal.
    interrupted: bool,
}

impl Position {
    fn address(&self) -> u64 {
        self.pc - u64::from(!self.interrupted)
    }
}

/// One step of the way.
struct Step<'a> {
    machine: Machine,
    space: &'a AddressSpace,
    stack: Stack<'a>,
    /// Of the innermost frame.
    registers: &'a Registers,
    at: Position,
    innermost: bool,
}

impl CompactUnwinder {
    /// An unwinder that has no tables yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Finds the frames of a stack, as [`Unwinder::unwind`](crate::Unwinder::unwind) does.
    pub fn unwind(
        &mut self,
        space: &AddressSpace,
        registers: &Registers,
        stack: Stack<'_>,
        out: &mut Vec<ProcessAddress>,
    ) -> Outcome {
        out.clear();
        let machine = registers.machine();
        let mut at = Position {
            pc: registers.pc(),
            sp: registers.sp(),
            fp: registers.get(machine.fp()),
            base: machine.base().and_then(|base| registers.get(base)),
            lr: machine.lr().and_then(|lr| registers.get(lr)).unwrap_or(0),
            interrupted: true,
        };
        loop {
            if out.len() == MAX_FRAMES {
                return Outcome::TooDeep;
            }
            let rule = self.rule(space, machine, at.address());
            // Where handlers return to, no call stands before.
            let returns = rule.is_some_and(|rule| rule.kind == CompactKind::SignalReturn);
            let place = if returns { at.pc } else { at.address() };
            out.push(ProcessAddress(place));
            let step = Step {
                machine,
                space,
                stack,
                registers,
                at,
                innermost: out.len() == 1,
            };
            match step.caller(rule) {
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

    /// The rule of an address; `None` where no tables are mapped.
    fn rule(
        &mut self,
        space: &AddressSpace,
        machine: Machine,
        address: u64,
    ) -> Option<CompactRule> {
        let mapping = space.find(address)?;
        let module = &*mapping.module;
        if module.machine != Some(machine) {
            return None;
        }
        let offset = (address - mapping.start()).checked_add(mapping.file_offset())?;
        let table = self
            .tables
            .entry(module.id)
            .or_insert_with(|| CompactTable::compile("module", module).unwrap_or_default());
        (!table.is_empty()).then(|| table.find_rule(offset))
    }
}

impl Step<'_> {
    fn caller(&self, rule: Option<CompactRule>) -> Result<Option<Position>, Stop> {
        let Some(rule) = rule else {
            return self.by_frame_pointer();
        };
        match rule.kind {
            CompactKind::Uncovered => match self.frameless() {
                Some((pc, sp)) => self.checked(pc, sp, self.at.fp, self.at.base),
                None => self.by_frame_pointer(),
            },
            CompactKind::Root => Ok(None),
            CompactKind::Unsupported => Err(Failure::BadTable.into()),
            CompactKind::SignalReturn => self.interrupted_by_signal(),
            _ => self.by_rule(rule),
        }
    }

    fn by_rule(&self, rule: CompactRule) -> Result<Option<Position>, Stop> {
        let cfa = self.cfa(rule)?;
        let at = |base: u64, offset: i32| base.wrapping_add_signed(offset.into());
        let pc = match rule.link {
            CompactReturn::AtCfa => self.stack.word(at(cfa, rule.return_offset.into()))?,
            CompactReturn::InLink if self.at.interrupted => self.at.lr,
            CompactReturn::InLink => return Err(Failure::NotAdvancing.into()),
        };
        let fp = match rule.frame {
            CompactFrame::Same => self.at.fp,
            CompactFrame::AtCfa => self.saved_word(at(cfa, rule.frame_offset), self.at.fp),
            CompactFrame::AtFrame => self
                .at
                .fp
                .and_then(|fp| self.saved_word(at(fp, rule.frame_offset), self.at.fp)),
            CompactFrame::Lost => None,
        };
        let base = match rule.base_slot {
            0 => self.at.base,
            BASE_LOST => None,
            slot => {
                let address = cfa.wrapping_sub(8 * u64::from(slot));
                self.saved_word(address, self.at.base)
            }
        };
        self.checked(pc, cfa, fp, base)
    }

    /// A register on the stack. An epilogue has popped it already where it lies below the stack
    /// pointer, and the tables do not always say so.
    fn saved_word(&self, address: u64, register: Option<u64>) -> Option<u64> {
        if self.at.interrupted && address < self.at.sp {
            return register;
        }
        self.stack.word(address).ok()
    }

    fn cfa(&self, rule: CompactRule) -> Result<u64, Stop> {
        let plus = |base: u64| base.wrapping_add_signed(rule.cfa_offset.into());
        let fp = || {
            let register = self.machine.fp() as u16;
            self.at.fp.ok_or(Failure::UnknownRegister(register))
        };
        let extra = u64::from(rule.extra);
        Ok(match rule.kind {
            CompactKind::FramePointer => plus(fp()?),
            CompactKind::StackMemory => self.stack.word(plus(self.at.sp))?.wrapping_add(extra),
            CompactKind::FrameMemory => self.stack.word(plus(fp()?))?.wrapping_add(extra),
            CompactKind::LinkageStub => {
                plus(self.at.sp).wrapping_add(if self.at.pc & 15 >= extra { 8 } else { 0 })
            }
            CompactKind::BaseRegister => {
                let register = self.machine.base().unwrap_or_default() as u16;
                plus(self.at.base.ok_or(Failure::UnknownRegister(register))?)
            }
            CompactKind::Register => {
                let known = self.registers.get(usize::from(rule.extra));
                let known = known.filter(|_| self.innermost);
                plus(known.ok_or(Failure::UnknownRegister(rule.extra.into()))?)
            }
            _ => plus(self.at.sp),
        })
    }

    /// Refuses a caller that cannot be one.
    fn checked(
        &self,
        pc: u64,
        sp: u64,
        fp: Option<u64>,
        base: Option<u64>,
    ) -> Result<Option<Position>, Stop> {
        let pc = strip(self.machine, pc);
        if pc == 0 {
            return Ok(None);
        }
        if pc < 4096 || pc >> 63 != 0 {
            return Err(Failure::BadReturnAddress.into());
        }
        // AArch64's innermost function need not have a frame.
        let leaf = self.at.interrupted && self.machine.lr().is_some() && pc != self.at.pc;
        if sp > self.at.sp || leaf && sp == self.at.sp {
            return Ok(Some(Position {
                pc,
                sp,
                fp,
                base,
                lr: 0,
                interrupted: false,
            }));
        }
        Err(Failure::NotAdvancing.into())
    }

    /// The caller of assembly without tables in an image that has some: it mostly has no frame, so
    /// that the return address is where a call put it: that address, and the caller's stack pointer.
    fn frameless(&self) -> Option<(u64, u64)> {
        if !self.at.interrupted {
            return None;
        }
        let (pc, sp) = match self.machine.lr() {
            None => (
                self.stack.word(self.at.sp).ok()?,
                self.at.sp.wrapping_add(8),
            ),
            Some(_) => (strip(self.machine, self.at.lr), self.at.sp),
        };
        self.space.find(pc.wrapping_sub(1))?;
        Some((pc, sp))
    }

    fn by_frame_pointer(&self) -> Result<Option<Position>, Stop> {
        let fp = self.at.fp.ok_or(Failure::NoTable)?;
        match fp {
            0 if self.innermost => return Err(Failure::NoTable.into()),
            0 => return Ok(None),
            _ if fp < self.at.sp || fp % 8 != 0 => return Err(Failure::NoTable.into()),
            _ => {}
        }
        let (saved, pc) = (self.stack.word(fp)?, self.stack.word(fp.wrapping_add(8))?);
        self.checked(pc, fp.wrapping_add(16), Some(saved), None)
    }

    /// The registers that the kernel put on the stack in front of a signal handler.
    fn interrupted_by_signal(&self) -> Result<Option<Position>, Stop> {
        let word = |offset: u64| self.stack.word(self.at.sp.wrapping_add(offset));
        let at = match self.machine {
            // struct ucontext, of which uc_mcontext begins at 40.
            Machine::X86_64 => Position {
                pc: word(168)?,
                sp: word(160)?,
                fp: Some(word(120)?),
                base: Some(word(128)?),
                lr: 0,
                interrupted: true,
            },
            // siginfo (128), then ucontext with uc_mcontext at 176, whose registers begin at 8.
            Machine::Aarch64 => Position {
                pc: word(312 + 8 * 32)?,
                sp: word(312 + 8 * 31)?,
                fp: Some(word(312 + 8 * 29)?),
                base: None,
                lr: word(312 + 8 * 30)?,
                interrupted: true,
            },
        };
        match at.pc {
            0 => Ok(None),
            1..4096 => Err(Failure::BadReturnAddress.into()),
            pc if pc >> 63 != 0 => Err(Failure::BadReturnAddress.into()),
            _ => Ok(Some(at)),
        }
    }
}
