//! Execution of instructions on partly known values.

use super::decoded::Decoded;
use super::lanes::LANES;
use super::memory::InterpretedMemory;
use super::names::{integer_index, merge_part, width_mask};
use super::operation::{self, OperationResult};
use super::state::State;
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register as Name};
use profile::ImageAddress;

impl State {
    /// Executes an instruction; returns where execution continues, if known.
    pub fn step(
        &mut self,
        one: &Decoded,
        memory: &mut impl InterpretedMemory,
    ) -> Option<ImageAddress> {
        let instruction = &one.instruction;
        let next = ImageAddress(instruction.next_ip());
        let target = ImageAddress(instruction.near_branch_target());
        match instruction.flow_control() {
            FlowControl::Next => {
                self.execute(one, memory)?;
                Some(next)
            }
            FlowControl::UnconditionalBranch => Some(target),
            FlowControl::ConditionalBranch => {
                let taken = self.condition(instruction.condition_code())?;
                Some(if taken { target } else { next })
            }
            FlowControl::IndirectBranch => self.indirect_target(instruction, memory),
            FlowControl::Call if instruction.is_call_near() => {
                self.enter_function(next, memory);
                Some(target)
            }
            FlowControl::IndirectCall => {
                let target = self.indirect_target(instruction, memory)?;
                self.enter_function(next, memory);
                Some(target)
            }
            FlowControl::Return if instruction.op_count() == 0 => self.leave_function(memory),
            _ => None,
        }
    }

    fn indirect_target(
        &self,
        instruction: &Instruction,
        memory: &mut impl InterpretedMemory,
    ) -> Option<ImageAddress> {
        let target = self.operand(instruction, 0, memory)?;
        Some(ImageAddress(target.wrapping_sub(self.moved)))
    }

    fn enter_function(&mut self, next: ImageAddress, memory: &mut impl InterpretedMemory) {
        self.push(Some(next.0.wrapping_add(self.moved)), memory);
        self.callers.push(next);
    }

    /// Leaves a function: only the return reads the word that the call stored.
    fn leave_function(&mut self, memory: &mut impl InterpretedMemory) -> Option<ImageAddress> {
        let caller = self.callers.pop();
        let stored = self.pop(memory);
        caller.or(stored.map(|to| ImageAddress(to.wrapping_sub(self.moved))))
    }

    pub fn push(&mut self, value: Option<u64>, memory: &mut impl InterpretedMemory) {
        if let Some(top) = &mut self.integer[STACK] {
            *top = top.wrapping_sub(8);
            memory.store_value(*top, 8, value);
        }
    }

    pub fn pop(&mut self, memory: &mut impl InterpretedMemory) -> Option<u64> {
        let top = self.integer[STACK].as_mut()?;
        let value = memory.load_value(*top, 8);
        *top = top.wrapping_add(8);
        value
    }

    /// Executes an instruction; returns `None` if nothing is known after it.
    fn execute(&mut self, one: &Decoded, memory: &mut impl InterpretedMemory) -> Option<()> {
        let instruction = &one.instruction;
        match instruction.mnemonic() {
            Mnemonic::Push if instruction.stack_pointer_increment() == -8 => {
                let value = self.operand(instruction, 0, memory);
                self.push(value, memory);
                return Some(());
            }
            Mnemonic::Pop if instruction.op0_kind() == OpKind::Register => {
                let value = self.pop(memory);
                if let Some(index) = integer_index(instruction.op0_register()) {
                    self.integer[index] = value;
                }
                return Some(());
            }
            Mnemonic::Leave => {
                self.integer[STACK] = self.integer[FRAME];
                self.integer[FRAME] = self.pop(memory);
                return Some(());
            }
            Mnemonic::Cld => {
                self.forward = true;
                return Some(());
            }
            Mnemonic::Std | Mnemonic::Syscall => return None,
            _ if instruction.is_string_instruction() => {
                return self.execute_string(instruction, memory);
            }
            _ => {}
        }
        if self
            .partly
            .as_ref()
            .is_some_and(|part| part.is_written(one))
        {
            self.partly = None;
        }
        if one.is_vector && self.execute_vector(one, memory)? {
            return Some(());
        }
        let result = self.evaluate_result(instruction, memory);
        let first = (instruction.op0_kind() == OpKind::Register)
            .then(|| instruction.op0_register())
            .filter(|name| name.is_gpr());
        let before = first.and_then(|name| self.integer[integer_index(name)?]);
        self.forget_written(one, result.is_some(), memory)?;
        let Some(result) = result else {
            return Some(());
        };
        self.known |= result.known;
        self.flags = self.flags & !result.known | result.flags & result.known;
        for (index, value) in result.others.into_iter().flatten() {
            self.integer[index] = value;
        }
        if !result.writes {
            return Some(());
        }
        match first.and_then(|name| Some((name, integer_index(name)?))) {
            Some((name, index)) => self.integer[index] = merge_part(name, before, result.value),
            None => self.store_operand(instruction, result.value, memory)?,
        }
        Some(())
    }

    /// Copies or fills memory; returns `None` for other string instructions, and for long strings.
    fn execute_string(
        &mut self,
        instruction: &Instruction,
        memory: &mut impl InterpretedMemory,
    ) -> Option<()> {
        let copies = match instruction.mnemonic() {
            Mnemonic::Movsb | Mnemonic::Movsw | Mnemonic::Movsd | Mnemonic::Movsq => true,
            Mnemonic::Stosb | Mnemonic::Stosw | Mnemonic::Stosd | Mnemonic::Stosq => false,
            _ => return None,
        };
        let width = instruction.memory_size().size();
        let repeats = instruction.has_rep_prefix() || instruction.has_repne_prefix();
        let count = if repeats { self.integer[COUNTER]? } else { 1 };
        let length = count.checked_mul(width as u64)?;
        let plain = self.forward && instruction.segment_prefix() == Name::None;
        if !plain || length > LONGEST || instruction.op0_kind() != OpKind::MemoryESRDI {
            return None;
        }
        let (from, to) = (self.integer[SOURCE], self.integer[TARGET]?);
        let value = self
            .register(Name::RAX)
            .map(|value| value & width_mask(width));
        for at in (0..length).step_by(width) {
            let value = if copies {
                memory.load_value(from?.wrapping_add(at), width)
            } else {
                value
            };
            memory.store_value(to.wrapping_add(at), width, value);
        }
        self.integer[TARGET] = Some(to.wrapping_add(length));
        if copies {
            self.integer[SOURCE] = from.map(|from| from.wrapping_add(length));
        }
        if repeats {
            self.integer[COUNTER] = Some(0);
        }
        Some(())
    }

    /// Forgets the registers that an instruction writes, unless it is modelled and will set them.
    fn forget_written(
        &mut self,
        one: &Decoded,
        modelled: bool,
        memory: &mut impl InterpretedMemory,
    ) -> Option<()> {
        for index in set_bits(one.integer.into()) {
            self.integer[index] = None;
        }
        for index in set_bits(one.masks.into()) {
            self.masks[index] = None;
        }
        for index in set_bits(one.vector) {
            self.vector[index] = [None; LANES];
        }
        self.known &= !one.flags;
        if one.stores && !modelled {
            self.store_operand(&one.instruction, None, memory)?;
        }
        Some(())
    }

    /// Stores to the memory operand.
    fn store_operand(
        &self,
        instruction: &Instruction,
        value: Option<u64>,
        memory: &mut impl InterpretedMemory,
    ) -> Option<()> {
        let width = instruction.memory_size().size();
        match self.address(instruction) {
            Some(at) => {
                for from in (0..width).step_by(8) {
                    let value = value.filter(|_| width <= 8);
                    memory.store_value(at.wrapping_add(from as u64), (width - from).min(8), value);
                }
                Some(())
            }
            // The address is unknown.
            None => (!memory.is_whole()).then_some(()),
        }
    }

    /// Returns the result of an instruction; `None` if it is not modelled.
    fn evaluate_result(
        &self,
        instruction: &Instruction,
        memory: &mut impl InterpretedMemory,
    ) -> Option<OperationResult> {
        let width = match instruction.op0_kind() {
            // As for `cdqe`.
            _ if instruction.op_count() == 0 => 8,
            OpKind::Register => instruction.op0_register().size(),
            OpKind::Memory => instruction.memory_size().size(),
            _ => 8,
        };
        if !matches!(width, 1 | 2 | 4 | 8) {
            return None;
        }
        let mut operands = [None; 3];
        for (number, operand) in (0..instruction.op_count().min(3)).zip(&mut operands) {
            *operand = match instruction.mnemonic() {
                Mnemonic::Lea => None,
                _ => self.operand(instruction, number, memory),
            };
        }
        operation::evaluate_operation(self, instruction, width, operands)
    }
}

/// Returns the positions of the set bits.
fn set_bits(mut of: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (of != 0).then(|| of.trailing_zeros() as usize)?;
        of &= of - 1;
        Some(lowest)
    })
}

/// Size of the longest string that is interpreted, in bytes: the process copies longer ones itself.
const LONGEST: u64 = 4096;

/// `rcx`, `rsi` and `rdi`.
const COUNTER: usize = 1;
const SOURCE: usize = 6;
const TARGET: usize = 7;

/// `rsp` and `rbp`.
const STACK: usize = 4;
const FRAME: usize = 5;
