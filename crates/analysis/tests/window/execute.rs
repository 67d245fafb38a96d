//! Interpreter of the simulated program: registers, conditions and addresses.

use super::contents::{Contents, STACK};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// The state of the program.
pub struct State {
    registers: [u64; 16],
    /// Flags of conditions: the last result was zero, and there was a borrow.
    zero: bool,
    below: bool,
    memory: Contents,
}

/// Effects of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Did {
    /// The address of its memory access.
    pub address: Option<u64>,
    /// True if it jumped.
    pub taken: bool,
}

impl State {
    pub fn new(memory: Contents) -> Self {
        let mut registers = [0; 16];
        registers[4] = STACK;
        Self {
            registers,
            zero: false,
            below: false,
            memory,
        }
    }

    fn register(&self, name: Register) -> u64 {
        let full = name.full_register();
        let index = full as usize - Register::RAX as usize;
        let value = self.registers[index];
        if name.is_gpr32() {
            u64::from(value as u32)
        } else {
            value
        }
    }

    fn set(&mut self, name: Register, value: u64) {
        assert!(name.is_gpr64() || name.is_gpr32(), "{name:?}");
        let index = name.full_register() as usize - Register::RAX as usize;
        assert_ne!(index, 4, "the stack stays where it is");
        self.registers[index] = if name.is_gpr32() {
            u64::from(value as u32)
        } else {
            value
        };
    }

    fn address(&self, one: &Instruction) -> Option<u64> {
        let memory = (0..one.op_count()).find(|at| one.op_kind(*at) == OpKind::Memory)?;
        one.virtual_address(memory, 0, |name, _, _| {
            Some(if name.is_segment_register() {
                0
            } else {
                self.register(name)
            })
        })
    }

    /// Returns an operand; vectors have unknown values.
    fn operand(&self, one: &Instruction, at: u32, address: Option<u64>) -> u64 {
        match one.op_kind(at) {
            OpKind::Register if one.op_register(at).is_gpr() => self.register(one.op_register(at)),
            OpKind::Register => 0,
            OpKind::Memory => self.memory.read(address.unwrap_or(0)),
            _ => one.immediate(at),
        }
    }

    /// Executes an instruction.
    ///
    /// # Panics
    /// If the code generator never emits such an instruction.
    pub fn step(&mut self, one: &Instruction) -> Did {
        use Mnemonic::*;
        // The instruction may change the registers of its address.
        let address = self.address(one);
        let taken = match one.mnemonic() {
            Je => self.zero,
            Jne => !self.zero,
            Jb => self.below,
            Jae => !self.below,
            Jmp => true,
            _ => false,
        };
        match one.mnemonic() {
            Je | Jne | Jb | Jae | Jmp | Mfence | Addsd | Mulsd | Divsd => {}
            // The return address that the caller has pushed, and will push again.
            Ret => {
                let address = Some(STACK - 8);
                return Did { address, taken };
            }
            Lea => {
                self.set(one.op0_register(), address.unwrap_or(0));
                let address = None;
                return Did { address, taken };
            }
            _ => self.compute(one, address),
        }
        Did { address, taken }
    }

    fn compute(&mut self, one: &Instruction, address: Option<u64>) {
        use Mnemonic::*;
        let to = self.operand(one, 0, address);
        let from = match one.op_count() {
            0 | 1 => to,
            _ => self.operand(one, one.op_count() - 1, address),
        };
        let value = match one.mnemonic() {
            Mov | Movsd => from,
            Add | Inc => {
                let by = if one.mnemonic() == Inc { 1 } else { from };
                to.wrapping_add(by)
            }
            Sub | Cmp | Dec => {
                let by = if one.mnemonic() == Dec { 1 } else { from };
                self.below = to < by;
                to.wrapping_sub(by)
            }
            And | Test => to & from,
            Xor => to ^ from,
            Shr => to >> from,
            Shl => to << from,
            Imul if one.op_count() == 3 => self.operand(one, 1, address).wrapping_mul(from),
            Imul => to.wrapping_mul(from),
            Popcnt => u64::from(from.count_ones()),
            Div => {
                self.set(Register::RAX, self.register(Register::RAX) / to.max(1));
                return;
            }
            other => panic!("{other:?} is not simulated"),
        };
        if !matches!(one.mnemonic(), Mov | Movsd) {
            self.zero = value == 0;
        }
        match one.op0_kind() {
            _ if matches!(one.mnemonic(), Cmp | Test) => {}
            OpKind::Memory => self.memory.write(address.unwrap_or(0), value),
            OpKind::Register if one.op0_register().is_gpr() => self.set(one.op0_register(), value),
            _ => {}
        }
    }
}
