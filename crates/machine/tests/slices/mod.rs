//! Executes slices, as the recorder makes the kernel do.

use machine::{Registers, Slice, SliceKind};

/// Returns the results of the operations. `memory` returns the byte at an address, or `None`.
pub fn carry_out(
    slice: &Slice,
    registers: &Registers,
    memory: impl Fn(u64) -> Option<u8>,
) -> Vec<Option<u64>> {
    let mut values: Vec<Option<u64>> = registers.integer.map(Some).to_vec();
    values.extend([registers.thread, Some(0)]);
    for one in slice.operations() {
        let value = |of: u8| values[usize::from(of)];
        let (a, b, constant) = (value(one.a), value(one.b), one.constant);
        let bits = 8 * u32::from(one.width);
        let of = |a: u64, b: u64| match one.kind {
            SliceKind::Load => {
                let byte = |index| memory(a.wrapping_add(constant).wrapping_add(index));
                let bytes: Option<Vec<u8>> = (0..one.width.into()).map(byte).collect();
                let joined = |all: u64, byte: u8| all << 8 | u64::from(byte);
                bytes.map(|bytes| bytes.into_iter().rev().fold(0, joined))
            }
            SliceKind::Add => Some(a.wrapping_add(b)),
            SliceKind::AddConstant => Some(a.wrapping_add(constant)),
            SliceKind::Subtract => Some(a.wrapping_sub(b)),
            SliceKind::And => Some(a & b),
            SliceKind::AndConstant => Some(a & constant),
            SliceKind::ShiftLeft => Some(a << constant),
            SliceKind::ShiftRight => Some(a >> constant),
            SliceKind::SignExtend => {
                let moved = a << (64 - bits);
                Some((moved.cast_signed() >> (64 - bits)).cast_unsigned())
            }
        };
        values.push(a.zip(b).and_then(|(a, b)| of(a, b)));
    }
    values.split_off(Slice::FIRST)
}
