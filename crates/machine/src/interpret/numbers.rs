//! Floating-point numbers, one by one.

use super::memory::InterpretedMemory;
use super::names::{CARRY, OVERFLOW, PARITY, SIGN, ZERO, sign_extend, width_mask};
use super::state::State;
use iced_x86::{Instruction, Mnemonic, OpKind};

impl State {
    /// Returns the result for the first of two floating-point numbers, of 8 bytes, or of 4 with
    /// those above.
    pub(super) fn float_result(
        &self,
        instruction: &Instruction,
        numbers: Option<(u64, u64)>,
    ) -> Option<u64> {
        use Mnemonic as M;
        let (a, b) = numbers.filter(|_| self.rounds)?;
        let (x, y) = (f64::from_bits(a), f64::from_bits(b));
        let (s, t) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
        let double = |result: f64| (!result.is_nan()).then_some(result.to_bits());
        // NaNs may differ in their bits.
        let single = |result: f32| {
            (!result.is_nan()).then_some(a & !width_mask(4) | u64::from(result.to_bits()))
        };
        match instruction.mnemonic() {
            M::Addsd | M::Vaddsd => double(x + y),
            M::Subsd | M::Vsubsd => double(x - y),
            M::Mulsd | M::Vmulsd => double(x * y),
            M::Divsd | M::Vdivsd => double(x / y),
            // For equal numbers, such as zeros of both signs, it is the second one.
            M::Minsd | M::Vminsd if !x.is_nan() => double(if x < y { x } else { y }),
            M::Maxsd | M::Vmaxsd if !x.is_nan() => double(if x > y { x } else { y }),
            M::Sqrtsd | M::Vsqrtsd => double(y.sqrt()),
            M::Addss => single(s + t),
            M::Subss => single(s - t),
            M::Mulss => single(s * t),
            M::Divss => single(s / t),
            M::Cvtsd2ss => single(y as f32),
            M::Cvtss2sd => double(t.into()),
            _ => None,
        }
    }

    pub(super) fn set_float_flags(&mut self, numbers: Option<(f64, f64)>) {
        self.known &= !(CARRY | PARITY | ZERO);
        self.known |= OVERFLOW | SIGN;
        self.flags &= !(CARRY | PARITY | ZERO | OVERFLOW | SIGN);
        let Some((a, b)) = numbers else {
            return;
        };
        self.known |= CARRY | PARITY | ZERO;
        self.flags |= match a.partial_cmp(&b) {
            Some(std::cmp::Ordering::Greater) => 0,
            Some(std::cmp::Ordering::Less) => CARRY,
            Some(std::cmp::Ordering::Equal) => ZERO,
            None => CARRY | PARITY | ZERO,
        };
    }

    /// Converts an integer to a floating-point number, in the low part of a register.
    pub(super) fn converted_to_float(
        &self,
        instruction: &Instruction,
        before: Option<u64>,
        memory: &mut impl InterpretedMemory,
    ) -> Option<u64> {
        let last = instruction.op_count() - 1;
        let number = self.operand(instruction, last, memory)?;
        let width = match instruction.try_op_kind(last).ok()? {
            OpKind::Memory => instruction.memory_size().size(),
            _ => instruction.op_register(last).size(),
        };
        let number = sign_extend(number, width).cast_signed();
        if !self.rounds {
            return None;
        }
        match instruction.mnemonic() {
            Mnemonic::Cvtsi2sd | Mnemonic::Vcvtsi2sd => Some((number as f64).to_bits()),
            _ => Some(before? & !width_mask(4) | u64::from((number as f32).to_bits())),
        }
    }
}

/// Truncates towards zero; returns the smallest integer if the number does not fit.
pub(super) fn truncate_float(number: f64, width: usize) -> u64 {
    let least = if width == 8 {
        i64::MIN
    } else {
        i32::MIN.into()
    };
    let fits =
        number.is_finite() && number.trunc() >= least as f64 && number.trunc() < -(least as f64);
    let whole = if fits { number as i64 } else { least };
    whole.cast_unsigned() & width_mask(width)
}
