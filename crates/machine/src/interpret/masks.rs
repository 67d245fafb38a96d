//! Mask registers (`k0` to `k7`), the results of comparisons in EVEX encoding.

use super::memory::InterpretedMemory;
use super::names::{CARRY, OVERFLOW, PARITY, SIGN, ZERO, integer_index, width_mask};
use super::state::State;
use iced_x86::{Instruction, Mnemonic, OpKind, Register as Name};

/// Returns the index of a mask register.
pub(super) fn mask_index(name: Name) -> Option<usize> {
    let index = (name as usize).checked_sub(Name::K0 as usize)?;
    (index < 8).then_some(index)
}

/// Returns the width in bytes of an instruction's mask.
fn mask_width(instruction: &Instruction) -> Option<usize> {
    use Mnemonic as M;
    Some(match instruction.mnemonic() {
        M::Kmovb | M::Korb | M::Kandb | M::Kxorb | M::Knotb | M::Kandnb | M::Kxnorb => 1,
        M::Kortestb | M::Ktestb | M::Kaddb | M::Kshiftrb | M::Kshiftlb => 1,
        M::Kmovw | M::Korw | M::Kandw | M::Kxorw | M::Knotw | M::Kandnw | M::Kxnorw => 2,
        M::Kortestw | M::Ktestw | M::Kaddw | M::Kshiftrw | M::Kshiftlw | M::Kunpckbw => 2,
        M::Kmovd | M::Kord | M::Kandd | M::Kxord | M::Knotd | M::Kandnd | M::Kxnord => 4,
        M::Kortestd | M::Ktestd | M::Kaddd | M::Kshiftrd | M::Kshiftld | M::Kunpckwd => 4,
        M::Kmovq | M::Korq | M::Kandq | M::Kxorq | M::Knotq | M::Kandnq | M::Kxnorq => 8,
        M::Kortestq | M::Ktestq | M::Kaddq | M::Kshiftrq | M::Kshiftlq | M::Kunpckdq => 8,
        _ => return None,
    })
}

impl State {
    /// Executes an instruction on masks; returns `false` if it is not modelled.
    pub fn execute_mask(
        &mut self,
        instruction: &Instruction,
        memory: &mut impl InterpretedMemory,
    ) -> bool {
        use Mnemonic as M;
        let Some(width) = mask_width(instruction) else {
            return false;
        };
        let within = width_mask(width);
        let mut operand = |number: u32| match instruction.try_op_kind(number).ok()? {
            OpKind::Register => match mask_index(instruction.op_register(number)) {
                Some(index) => self.masks[index],
                None => self.register(instruction.op_register(number)),
            },
            OpKind::Memory => memory.load_value(self.address(instruction)?, width),
            _ => instruction.try_immediate(number).ok(),
        };
        let last = instruction.op_count().saturating_sub(1);
        let (a, b) = (operand(last.min(1)), operand(last));
        let two = |of: fn(u64, u64) -> u64| a.zip(b).map(|(a, b)| of(a, b) & within);
        let half = 4 * width as u32;
        let value = match instruction.mnemonic() {
            M::Kortestb | M::Kortestw | M::Kortestd | M::Kortestq => {
                let any = operand(0).zip(b).map(|(a, b)| (a | b) & within);
                self.tested(any.map(|any| (any == within, any == 0)));
                return true;
            }
            M::Ktestb | M::Ktestw | M::Ktestd | M::Ktestq => {
                let both = operand(0).zip(b);
                self.tested(both.map(|(a, b)| (!a & b & within == 0, a & b & within == 0)));
                return true;
            }
            M::Kmovb | M::Kmovw | M::Kmovd | M::Kmovq => b.map(|b| b & within),
            M::Knotb | M::Knotw | M::Knotd | M::Knotq => b.map(|b| !b & within),
            M::Korb | M::Korw | M::Kord | M::Korq => two(|a, b| a | b),
            M::Kandb | M::Kandw | M::Kandd | M::Kandq => two(|a, b| a & b),
            M::Kandnb | M::Kandnw | M::Kandnd | M::Kandnq => two(|a, b| !a & b),
            M::Kxorb | M::Kxorw | M::Kxord | M::Kxorq => two(|a, b| a ^ b),
            M::Kxnorb | M::Kxnorw | M::Kxnord | M::Kxnorq => two(|a, b| !(a ^ b)),
            M::Kaddb | M::Kaddw | M::Kaddd | M::Kaddq => two(u64::wrapping_add),
            M::Kshiftrb | M::Kshiftrw | M::Kshiftrd | M::Kshiftrq => a
                .zip(b)
                .map(|(a, by)| (a & within).checked_shr(by as u32).unwrap_or(0)),
            M::Kshiftlb | M::Kshiftlw | M::Kshiftld | M::Kshiftlq => a
                .zip(b)
                .map(|(a, by)| a.checked_shl(by as u32).unwrap_or(0) & within),
            _ => a
                .zip(b)
                .map(|(a, b)| a << half & within | b & width_mask(width / 2)),
        };
        match (
            instruction.op0_kind(),
            mask_index(instruction.op0_register()),
        ) {
            (OpKind::Register, Some(index)) => self.masks[index] = value,
            (OpKind::Register, None) => {
                if let Some(index) = integer_index(instruction.op0_register()) {
                    self.integer[index] = value;
                }
            }
            _ => match self.address(instruction) {
                Some(at) => memory.store_value(at, width, value),
                None => return false,
            },
        }
        true
    }

    /// Sets the flags of a test: carry and zero only.
    pub fn tested(&mut self, result: Option<(bool, bool)>) {
        let all = CARRY | PARITY | ZERO | SIGN | OVERFLOW;
        self.flags &= !all;
        self.known |= all;
        match result {
            Some((carry, zero)) => {
                self.flags |= if carry { CARRY } else { 0 } | if zero { ZERO } else { 0 };
            }
            None => self.known &= !(CARRY | ZERO),
        }
    }
}
