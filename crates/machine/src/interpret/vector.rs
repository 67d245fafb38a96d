//! Vector registers, as far as branches of common code depend on them: moves, logic, and
//! floating-point numbers one by one.

use super::Decoded;
use super::memory::Memory;
use super::operation::{extend, mask};
use super::state::{CARRY, OVERFLOW, PARITY, SIGN, State, ZERO, integer, vector};
use iced_x86::{Instruction, Mnemonic, OpKind};

type Halves = [Option<u64>; 2];

impl State {
    /// Executes an instruction on vector registers; `false` if it is not modelled, and `None` if
    /// nothing can be known from here on.
    pub fn execute_vector(&mut self, one: &Decoded, memory: &mut impl Memory) -> Option<bool> {
        let instruction = &one.instruction;
        if let Some(bytes) = moved(instruction) {
            return self.moves(instruction, bytes, memory);
        }
        let op0 = instruction.op0_register();
        let same = instruction.op1_kind() == OpKind::Register && op0 == instruction.op1_register();
        let before = vector(op0).map_or([None; 2], |index| self.vector[index]);
        let source = |state: &Self, memory: &mut _| state.halves(instruction, memory);
        let logic = |other: Halves, of: fn(u64, u64) -> u64| {
            let [a, b] = [0, 1].map(|half| before[half].zip(other[half]).map(|(a, b)| of(a, b)));
            [a, b]
        };
        let result = match instruction.mnemonic() {
            Mnemonic::Pxor | Mnemonic::Xorps | Mnemonic::Xorpd if same => [Some(0); 2],
            Mnemonic::Pxor | Mnemonic::Xorps | Mnemonic::Xorpd => {
                logic(source(self, memory), |a, b| a ^ b)
            }
            Mnemonic::Pand | Mnemonic::Andps | Mnemonic::Andpd => {
                logic(source(self, memory), |a, b| a & b)
            }
            Mnemonic::Pandn | Mnemonic::Andnps | Mnemonic::Andnpd => {
                logic(source(self, memory), |a, b| !a & b)
            }
            Mnemonic::Por | Mnemonic::Orps | Mnemonic::Orpd => {
                logic(source(self, memory), |a, b| a | b)
            }
            Mnemonic::Pcmpeqb => logic(source(self, memory), equal_bytes),
            Mnemonic::Punpcklqdq => [before[0], source(self, memory)[0]],
            Mnemonic::Punpckldq => {
                let both = before[0].zip(source(self, memory)[0]);
                [0, 32].map(|shift| {
                    both.map(|(a, b)| a >> shift & mask(4) | (b >> shift & mask(4)) << 32)
                })
            }
            Mnemonic::Addsd | Mnemonic::Subsd | Mnemonic::Mulsd | Mnemonic::Divsd => {
                let both = before[0].zip(source(self, memory)[0]);
                [self.computed(instruction, both), before[1]]
            }
            Mnemonic::Cvtsi2sd => {
                let number = self.operand(instruction, 1, memory);
                let width = match instruction.op1_kind() {
                    OpKind::Memory => instruction.memory_size().size(),
                    _ => instruction.op1_register().size(),
                };
                let number = number.map(|number| extend(number, width).cast_signed() as f64);
                [number.filter(|_| self.rounds).map(f64::to_bits), before[1]]
            }
            Mnemonic::Cvttsd2si | Mnemonic::Pmovmskb => {
                let from = source(self, memory);
                let index = integer(op0)?;
                self.integer[index] = match instruction.mnemonic() {
                    Mnemonic::Pmovmskb => from[0].zip(from[1]).map(|(low, high)| {
                        u64::from(sign_bits(low)) | u64::from(sign_bits(high)) << 8
                    }),
                    _ => from[0].map(|bits| truncated(f64::from_bits(bits), op0.size())),
                };
                return Some(true);
            }
            Mnemonic::Comisd | Mnemonic::Ucomisd => {
                let both = before[0].zip(source(self, memory)[0]);
                self.compared(both);
                return Some(true);
            }
            _ => return Some(false),
        };
        self.vector[vector(op0)?] = result;
        Some(true)
    }

    fn computed(&self, instruction: &Instruction, both: Option<(u64, u64)>) -> Option<u64> {
        let (a, b) = both.filter(|_| self.rounds)?;
        let (a, b) = (f64::from_bits(a), f64::from_bits(b));
        let result = match instruction.mnemonic() {
            Mnemonic::Addsd => a + b,
            Mnemonic::Subsd => a - b,
            Mnemonic::Mulsd => a * b,
            _ => a / b,
        };
        // Which of the numbers that are none it is differs.
        (!result.is_nan()).then_some(result.to_bits())
    }

    fn compared(&mut self, both: Option<(u64, u64)>) {
        self.known &= !(CARRY | PARITY | ZERO);
        self.known |= OVERFLOW | SIGN;
        self.flags &= !(CARRY | PARITY | ZERO | OVERFLOW | SIGN);
        let Some((a, b)) = both else {
            return;
        };
        self.known |= CARRY | PARITY | ZERO;
        self.flags |= match f64::from_bits(a).partial_cmp(&f64::from_bits(b)) {
            Some(std::cmp::Ordering::Greater) => 0,
            Some(std::cmp::Ordering::Less) => CARRY,
            Some(std::cmp::Ordering::Equal) => ZERO,
            None => CARRY | PARITY | ZERO,
        };
    }

    /// The second operand, as far as it is one of 16 bytes or less.
    fn halves(&self, instruction: &Instruction, memory: &mut impl Memory) -> Halves {
        if instruction.op1_kind() != OpKind::Memory {
            let from = instruction.op1_register();
            return match vector(from) {
                Some(index) => self.vector[index],
                None => [self.register(from), Some(0)],
            };
        }
        let bytes = instruction.memory_size().size();
        let Some(at) = self.address(instruction).filter(|_| bytes <= 16) else {
            return [None; 2];
        };
        let low = memory.load(at, bytes.min(8));
        let high = match bytes {
            16 => memory.load(at.wrapping_add(8), 8),
            _ => Some(0),
        };
        [low, high]
    }

    fn moves(
        &mut self,
        instruction: &Instruction,
        bytes: usize,
        memory: &mut impl Memory,
    ) -> Option<bool> {
        let [low, high] = self.halves(instruction, memory);
        let value = [
            low.map(|low| low & mask(bytes.min(8))),
            if bytes == 16 { high } else { Some(0) },
        ];
        if instruction.op0_kind() == OpKind::Memory {
            let at = self.address(instruction);
            if at.is_none() && memory.is_known() {
                return None;
            }
            if let Some(at) = at {
                memory.store(at, bytes.min(8), value[0]);
                if bytes == 16 {
                    memory.store(at.wrapping_add(8), 8, value[1]);
                }
            }
            return Some(true);
        }
        let to = instruction.op0_register();
        let keeps =
            instruction.mnemonic() == Mnemonic::Movsd && instruction.op1_kind() == OpKind::Register;
        match vector(to) {
            Some(index) if keeps => self.vector[index][0] = value[0],
            Some(index) => self.vector[index] = value,
            None => self.integer[integer(to)?] = value[0],
        }
        Some(true)
    }
}

/// The bytes that an instruction moves, if it is one that moves.
fn moved(instruction: &Instruction) -> Option<usize> {
    Some(match instruction.mnemonic() {
        Mnemonic::Movups | Mnemonic::Movaps | Mnemonic::Movupd | Mnemonic::Movapd => 16,
        Mnemonic::Movdqu | Mnemonic::Movdqa => 16,
        Mnemonic::Movq | Mnemonic::Movsd => 8,
        Mnemonic::Movd => 4,
        _ => return None,
    })
}

/// All bits of each byte that is the same in both.
fn equal_bytes(a: u64, b: u64) -> u64 {
    let bytes = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
    let mut result = [0; 8];
    for (result, (a, b)) in result.iter_mut().zip(bytes) {
        *result = if a == b { 0xff } else { 0 };
    }
    u64::from_le_bytes(result)
}

/// The highest bit of each byte.
fn sign_bits(value: u64) -> u8 {
    let bytes = value.to_le_bytes().into_iter().enumerate();
    bytes.fold(0, |bits, (index, byte)| bits | (byte >> 7) << index)
}

/// Towards zero, and the least number if it does not fit.
fn truncated(number: f64, width: usize) -> u64 {
    let least = if width == 8 {
        i64::MIN
    } else {
        i32::MIN.into()
    };
    let fits =
        number.is_finite() && number.trunc() >= least as f64 && number.trunc() < -(least as f64);
    let whole = if fits { number as i64 } else { least };
    whole.cast_unsigned() & mask(width)
}
