//! A model of the collector's BPF program on compact tables, with the same steps.

use super::rule::{BASE_LOST, CompactFrame, CompactKind, CompactReturn, CompactRule};
use super::table::CompactTable;
use crate::caller::{FramePointers, check_advance, check_return_address, frame_record};
use crate::evaluate::strip_signature;
use crate::failure::{UnwindFailure, UnwindStop};
use crate::{AddressSpace, MAX_FRAMES, StackMemory, UnwindMachine, UnwindOutcome, UnwindRegisters};
use profile::ProcessAddress;
use rustc_hash::FxHashMap;

/// Unwinds stacks by [`CompactTable`]s: the model of `unwind_steps.h` in crate `sampler`.
///
/// It follows only program counter, stack pointer, frame pointer and link register from frame to
/// frame.
#[derive(Default)]
pub struct CompactUnwinder {
    /// Tables by the number of the module.
    tables: FxHashMap<u64, CompactTable>,
}

/// Position of a frame during the walk.
#[derive(Clone, Copy)]
struct CompactPosition {
    pc: u64,
    sp: u64,
    /// True if a frame record led to the frame.
    by_record: bool,
    /// Frame pointer; `None` if the tables do not locate it.
    fp: Option<u64>,
    /// Base register, likewise.
    base: Option<u64>,
    lr: u64,
    /// True if the frame is the innermost one, or was interrupted by a signal, so that it is
    /// anywhere in its function.
    interrupted: bool,
}

impl CompactPosition {
    fn code_address(&self) -> u64 {
        // A call may be the last instruction of a function: its return address is then in the next
        // one.
        self.pc - u64::from(!self.interrupted)
    }
}

/// One step of the walk.
struct CompactStep<'a> {
    machine: UnwindMachine,
    space: &'a AddressSpace,
    stack: StackMemory<'a>,
    /// Registers of the innermost frame.
    registers: &'a UnwindRegisters,
    at: CompactPosition,
    innermost: bool,
}

impl CompactUnwinder {
    /// Makes an unwinder without tables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Finds the frames of a stack, like [`Unwinder::unwind`](crate::Unwinder::unwind).
    pub fn unwind(
        &mut self,
        space: &AddressSpace,
        registers: &UnwindRegisters,
        stack: StackMemory<'_>,
        out: &mut Vec<ProcessAddress>,
    ) -> UnwindOutcome {
        out.clear();
        let machine = registers.machine();
        let mut at = CompactPosition {
            pc: registers.pc(),
            sp: registers.sp(),
            by_record: false,
            fp: registers.get_column(machine.fp_column()),
            base: machine
                .base_column()
                .and_then(|base| registers.get_column(base)),
            lr: machine
                .lr_column()
                .and_then(|lr| registers.get_column(lr))
                .unwrap_or(0),
            interrupted: true,
        };
        loop {
            if out.len() == MAX_FRAMES {
                return UnwindOutcome::TooDeep;
            }
            let rule = self.rule_at(space, machine, at.code_address());
            // No call precedes the code to which handlers return.
            let returns = rule.is_some_and(|rule| rule.kind == CompactKind::SignalReturn);
            let place = if returns { at.pc } else { at.code_address() };
            out.push(ProcessAddress(place));
            let step = CompactStep {
                machine,
                space,
                stack,
                registers,
                at,
                innermost: out.len() == 1,
            };
            match step.caller_position(rule) {
                Ok(Some(caller)) => at = caller,
                Ok(None) => return UnwindOutcome::Complete,
                Err(stop) => return stop.into(),
            }
        }
    }

    /// Returns the rule of an address; `None` if no tables are mapped there.
    fn rule_at(
        &mut self,
        space: &AddressSpace,
        machine: UnwindMachine,
        address: u64,
    ) -> Option<CompactRule> {
        let mapping = space.mapping_at(address)?;
        let module = &*mapping.module;
        if module.machine != Some(machine) {
            return None;
        }
        let offset = mapping.offset_in_file(address)?;
        let table = self
            .tables
            .entry(module.id)
            .or_insert_with(|| CompactTable::compile("module", module).unwrap_or_default());
        (!table.is_empty()).then(|| table.find_rule(offset))
    }
}

fn counts_from_stack_pointer(kind: CompactKind) -> bool {
    !matches!(
        kind,
        CompactKind::FramePointer
            | CompactKind::FrameMemory
            | CompactKind::BaseRegister
            | CompactKind::Register
    )
}

impl CompactStep<'_> {
    /// Returns whether `sp` is only a lower bound of the stack pointer: on AArch64 a frame record
    /// is anywhere in its frame.
    fn sp_is_bound(&self) -> bool {
        self.at.by_record && self.machine.lr_column().is_some()
    }

    fn caller_position(
        &self,
        rule: Option<CompactRule>,
    ) -> Result<Option<CompactPosition>, UnwindStop> {
        let Some(rule) = rule else {
            return self.by_frame_pointer();
        };
        match rule.kind {
            CompactKind::Uncovered => match self.frameless_caller() {
                Some((pc, sp)) => self.check_caller(pc, sp, self.at.fp, self.at.base, false),
                None => self.by_frame_pointer(),
            },
            CompactKind::Root => Ok(None),
            CompactKind::Unsupported => Err(UnwindFailure::BadTable.into()),
            CompactKind::SignalReturn if self.sp_is_bound() => self.by_frame_pointer(),
            CompactKind::SignalReturn => self.interrupted_by_signal(),
            CompactKind::StackSwitch => self.across_stacks(),
            _ => self.by_rule(rule),
        }
    }

    fn by_rule(&self, rule: CompactRule) -> Result<Option<CompactPosition>, UnwindStop> {
        let cfa = self.compute_cfa(rule)?;
        let at = |base: u64, offset: i32| base.wrapping_add_signed(offset.into());
        let pc = match rule.link {
            CompactReturn::AtCfa => self.stack.read_word(at(cfa, rule.return_offset.into()))?,
            CompactReturn::InLink if self.at.interrupted => self.at.lr,
            // The link register holds one return address, which an inner frame has used.
            CompactReturn::InLink => return Err(UnwindFailure::NotAdvancing.into()),
            CompactReturn::InRegister => self.innermost_register(rule.return_offset as u16)?,
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
        self.check_caller(pc, cfa, fp, base, rule.link == CompactReturn::InRegister)
    }

    /// Reads a register saved on the stack. Below the stack pointer, an epilogue has already popped
    /// it, which tables do not always say.
    fn saved_word(&self, address: u64, register: Option<u64>) -> Option<u64> {
        if self.at.interrupted && address < self.at.sp {
            return register;
        }
        self.stack.read_word(address).ok()
    }

    fn compute_cfa(&self, rule: CompactRule) -> Result<u64, UnwindStop> {
        let plus = |base: u64| base.wrapping_add_signed(rule.cfa_offset.into());
        let fp = || {
            let register = self.machine.fp_column() as u16;
            self.at.fp.ok_or(UnwindFailure::UnknownRegister(register))
        };
        let extra = u64::from(rule.extra);
        if self.sp_is_bound() && counts_from_stack_pointer(rule.kind) {
            return self.cfa_by_record(rule);
        }
        Ok(match rule.kind {
            CompactKind::FramePointer => plus(fp()?),
            CompactKind::StackMemory => self.stack.read_word(plus(self.at.sp))?.wrapping_add(extra),
            CompactKind::FrameMemory => self.stack.read_word(plus(fp()?))?.wrapping_add(extra),
            // Stubs of 16 bytes push a number: after that, the return address is one word higher.
            CompactKind::LinkageStub => {
                plus(self.at.sp).wrapping_add(if self.at.pc & 15 >= extra { 8 } else { 0 })
            }
            CompactKind::BaseRegister => {
                let register = self.machine.base_column().unwrap_or_default() as u16;
                plus(
                    self.at
                        .base
                        .ok_or(UnwindFailure::UnknownRegister(register))?,
                )
            }
            CompactKind::Register => plus(self.innermost_register(rule.extra.into())?),
            _ => plus(self.at.sp),
        })
    }

    /// Returns a register of the innermost frame by its DWARF number.
    fn innermost_register(&self, number: u16) -> Result<u64, UnwindStop> {
        let known = self.registers.get_column(usize::from(number));
        let known = known.filter(|_| self.innermost);
        Ok(known.ok_or(UnwindFailure::UnknownRegister(number))?)
    }

    /// Returns the canonical frame address of a function with a frame record, which the frame
    /// pointer locates while the function waits for a callee.
    fn cfa_by_record(&self, rule: CompactRule) -> Result<u64, UnwindStop> {
        let has_record = rule.frame == CompactFrame::AtCfa
            && rule.link == CompactReturn::AtCfa
            && i64::from(rule.return_offset) == i64::from(rule.frame_offset) + 8;
        let frame_pointer = self.at.fp.filter(|_| has_record);
        let frame_pointer = frame_pointer.ok_or(UnwindFailure::UnknownRegister(
            self.machine.sp_column() as u16,
        ))?;
        Ok(frame_pointer.wrapping_sub(i64::from(rule.frame_offset) as u64))
    }

    /// Refuses an impossible caller.
    fn check_caller(
        &self,
        pc: u64,
        sp: u64,
        fp: Option<u64>,
        base: Option<u64>,
        in_register: bool,
    ) -> Result<Option<CompactPosition>, UnwindStop> {
        let pc = strip_signature(self.machine, pc);
        if pc == 0 {
            return Ok(None);
        }
        check_return_address(pc)?;
        let callee = FramePointers {
            pc: self.at.pc,
            sp: self.at.sp,
        };
        let caller = FramePointers { pc, sp };
        let may_stay = self.at.interrupted && (in_register || self.machine.lr_column().is_some());
        check_advance(callee, caller, may_stay)?;
        Ok(Some(CompactPosition {
            pc,
            sp,
            by_record: false,
            fp,
            base,
            lr: 0,
            interrupted: false,
        }))
    }

    /// Returns the return address and the stack pointer of the caller of assembly without tables,
    /// in an image with tables. Such code mostly has no frame, so that the return address is where
    /// the call put it.
    fn frameless_caller(&self) -> Option<(u64, u64)> {
        if !self.at.interrupted {
            return None;
        }
        let (pc, sp) = match self.machine.lr_column() {
            None => (
                self.stack.read_word(self.at.sp).ok()?,
                self.at.sp.wrapping_add(8),
            ),
            Some(_) => (strip_signature(self.machine, self.at.lr), self.at.sp),
        };
        self.space.mapping_at(pc.wrapping_sub(1))?;
        Some((pc, sp))
    }

    fn by_frame_pointer(&self) -> Result<Option<CompactPosition>, UnwindStop> {
        let (stack, at) = (self.stack, &self.at);
        let Some(record) = frame_record(self.machine, stack, at.fp, at.sp, at.by_record)? else {
            return Ok(None);
        };
        let sp = at.fp.unwrap_or(0).wrapping_add(16);
        let caller = self.check_caller(record.pc, sp, Some(record.fp), None, false)?;
        Ok(caller.map(|caller| CompactPosition {
            by_record: true,
            ..caller
        }))
    }

    /// Returns the caller on another stack, which may be anywhere: the limit on frames ends a
    /// cycle.
    fn across_stacks(&self) -> Result<Option<CompactPosition>, UnwindStop> {
        let Some(fp) = self.at.fp.filter(|fp| *fp > 0) else {
            return Ok(None);
        };
        let (saved, pc) = (
            self.stack.read_word(fp)?,
            self.stack.read_word(fp.wrapping_add(8))?,
        );
        if pc == 0 {
            return Ok(None);
        }
        check_return_address(pc)?;
        Ok(Some(CompactPosition {
            pc,
            sp: fp.wrapping_add(16),
            by_record: false,
            fp: Some(saved),
            base: None,
            lr: 0,
            interrupted: false,
        }))
    }

    /// Returns the registers that the kernel stored on the stack before a signal handler.
    fn interrupted_by_signal(&self) -> Result<Option<CompactPosition>, UnwindStop> {
        let word = |offset: u64| self.stack.read_word(self.at.sp.wrapping_add(offset));
        let at = match self.machine {
            // struct ucontext, with uc_mcontext at 40.
            UnwindMachine::X86_64 => CompactPosition {
                pc: word(168)?,
                sp: word(160)?,
                by_record: false,
                fp: Some(word(120)?),
                base: Some(word(128)?),
                lr: 0,
                interrupted: true,
            },
            // siginfo (128), then ucontext with uc_mcontext at 176, whose registers begin at 8.
            UnwindMachine::Aarch64 => CompactPosition {
                pc: word(312 + 8 * 32)?,
                sp: word(312 + 8 * 31)?,
                by_record: false,
                fp: Some(word(312 + 8 * 29)?),
                base: None,
                lr: word(312 + 8 * 30)?,
                interrupted: true,
            },
        };
        if at.pc == 0 {
            return Ok(None);
        }
        check_return_address(at.pc)?;
        Ok(Some(at))
    }
}
