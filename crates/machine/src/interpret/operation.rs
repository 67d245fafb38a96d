//! Results of the modelled instructions.

use super::names::{CARRY, OVERFLOW, PARITY, SIGN, ZERO, integer_index, sign_extend, width_mask};
use super::state::{State, signed_value};
use iced_x86::{ConditionCode, Instruction, Mnemonic, OpKind, Register as Name};

/// The result of an operation and its flags, as far as known.
#[derive(Default)]
pub(super) struct OperationResult {
    pub value: Option<u64>,
    /// True if the first operand is written.
    pub writes: bool,
    pub flags: u8,
    pub known: u8,
    /// Other integer registers that are written.
    pub others: [Option<(usize, Option<u64>)>; 2],
}

impl OperationResult {
    fn of(value: Option<u64>) -> Self {
        Self {
            value,
            writes: true,
            ..Self::default()
        }
    }

    fn but_carry(mut self) -> Self {
        self.known &= !CARRY;
        self
    }

    /// Makes this the result of a comparison, which only sets flags.
    fn flags_only(mut self) -> Self {
        self.writes = false;
        self
    }
}

/// `rax` and `rdx`.
const A: usize = 0;
const D: usize = 2;

pub(super) fn evaluate_operation(
    state: &State,
    instruction: &Instruction,
    width: usize,
    operands: [Option<u64>; 3],
) -> Option<OperationResult> {
    let [a, b, _] = operands;
    // Each mnemonic is modelled in one of these; the others return nothing for it.
    moved_result(state, instruction, width, operands)
        .or_else(|| arithmetic_result(state, instruction, width, operands))
        .or_else(|| bit_result(instruction, width, operands))
        .or_else(|| conditional_result(state, instruction, [a, b.map(|b| b & width_mask(width))]))
}

/// Returns the result of instructions that move, extend or exchange values.
fn moved_result(
    state: &State,
    instruction: &Instruction,
    width: usize,
    [a, b_wide, _]: [Option<u64>; 3],
) -> Option<OperationResult> {
    let b = b_wide.map(|b| b & width_mask(width));
    Some(match instruction.mnemonic() {
        Mnemonic::Mov | Mnemonic::Movzx => OperationResult::of(b_wide),
        Mnemonic::Movsx | Mnemonic::Movsxd => {
            let from = match instruction.op1_kind() {
                OpKind::Memory => instruction.memory_size().size(),
                _ => instruction.op1_register().size(),
            };
            OperationResult::of(b_wide.map(|value| sign_extend(value, from)))
        }
        Mnemonic::Cdqe => other_result(A, signed_value(state, Name::EAX)),
        Mnemonic::Cwde => other_result(
            A,
            signed_value(state, Name::AX).map(|value| value & width_mask(4)),
        ),
        Mnemonic::Cdq => other_result(
            D,
            signed_value(state, Name::EAX).map(|value| (value >> 32) & width_mask(4)),
        ),
        Mnemonic::Cqo => other_result(D, state.register(Name::RAX).map(|value| sign_of(value, 8))),
        Mnemonic::Lea => OperationResult::of(state.sum(instruction)),
        Mnemonic::Xchg if instruction.op1_kind() == OpKind::Register && width >= 4 => {
            OperationResult {
                others: [
                    integer_index(instruction.op1_register()).map(|to| (to, a)),
                    None,
                ],
                ..OperationResult::of(b)
            }
        }
        _ => return None,
    })
}

/// Returns the result of sums, products, comparisons and bitwise operations.
fn arithmetic_result(
    state: &State,
    instruction: &Instruction,
    width: usize,
    [a, b_wide, c]: [Option<u64>; 3],
) -> Option<OperationResult> {
    let b = b_wide.map(|b| b & width_mask(width));
    let same = instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register
        && instruction.op0_register() == instruction.op1_register();
    let carry = || state.flag(CARRY);
    Some(match instruction.mnemonic() {
        Mnemonic::Xor | Mnemonic::Sub if same => logic_flags(0, width),
        Mnemonic::Cmp if same => logic_flags(0, width).flags_only(),
        Mnemonic::Add => add_result(a, b, false, width),
        Mnemonic::Sub => subtract_result(a, b, false, width),
        Mnemonic::Cmp => subtract_result(a, b, false, width).flags_only(),
        Mnemonic::Adc => add_result(a, b, carry()?, width),
        Mnemonic::Sbb if same => {
            let value = if carry()? { width_mask(width) } else { 0 };
            subtract_result(Some(0), Some(value & 1), false, width)
        }
        Mnemonic::Sbb => subtract_result(a, b, carry()?, width),
        Mnemonic::And => logic_of(a, b, width, |a, b| a & b),
        Mnemonic::Test => logic_of(a, b, width, |a, b| a & b).flags_only(),
        // A sample ends a transaction, so that interpretation is always outside of one.
        Mnemonic::Xtest => OperationResult {
            flags: ZERO,
            known: CARRY | OVERFLOW | SIGN | ZERO | PARITY,
            ..OperationResult::default()
        },
        Mnemonic::Or => logic_of(a, b, width, |a, b| a | b),
        Mnemonic::Xor => logic_of(a, b, width, |a, b| a ^ b),
        Mnemonic::Inc => add_result(a, Some(1), false, width).but_carry(),
        Mnemonic::Dec => subtract_result(a, Some(1), false, width).but_carry(),
        Mnemonic::Neg => subtract_result(Some(0), a, false, width),
        Mnemonic::Not => OperationResult::of(a.map(|a| !a & width_mask(width))),
        Mnemonic::Imul => multiply_result(state, instruction, width, [a, b_wide, c])?,
        Mnemonic::Mul | Mnemonic::Div | Mnemonic::Idiv => {
            wide_result(state, instruction, width, a)?
        }
        _ => return None,
    })
}

/// Returns the result of shifts, and of operations on single bits and bytes.
fn bit_result(
    instruction: &Instruction,
    width: usize,
    [a, b_wide, c]: [Option<u64>; 3],
) -> Option<OperationResult> {
    let b = b_wide.map(|b| b & width_mask(width));
    Some(match instruction.mnemonic() {
        Mnemonic::Shl | Mnemonic::Shr | Mnemonic::Sar => {
            shift_result(instruction, a, b_wide, width)?
        }
        Mnemonic::Rol | Mnemonic::Ror => rotate_result(instruction, a, b_wide, width),
        Mnemonic::Bswap if width == 8 => OperationResult::of(a.map(u64::swap_bytes)),
        Mnemonic::Bswap => OperationResult::of(a.map(|a| u64::from((a as u32).swap_bytes()))),
        Mnemonic::Movbe => OperationResult::of(b.map(|b| b.swap_bytes() >> (64 - 8 * width))),
        Mnemonic::Andn => logic_of(b, c, width, |b, c| !b & c),
        Mnemonic::Shlx | Mnemonic::Shrx | Mnemonic::Sarx => {
            let count = c.map(|count| count & (8 * width as u64 - 1));
            let of = |(b, count): (u64, u64)| match instruction.mnemonic() {
                Mnemonic::Shlx => b << count,
                Mnemonic::Shrx => b >> count,
                _ => (sign_extend(b, width).cast_signed() >> count).cast_unsigned(),
            };
            OperationResult::of(b.zip(count).map(of).map(|value| value & width_mask(width)))
        }
        Mnemonic::Bzhi => match b.zip(c.map(|c| c & 0xff)) {
            Some((b, count)) if count < 8 * width as u64 => {
                logic_flags(b & !(u64::MAX << count), width)
            }
            Some((b, _)) => OperationResult {
                flags: logic_flags(b, width).flags | CARRY,
                ..logic_flags(b, width)
            },
            None => OperationResult::of(None),
        },
        Mnemonic::Blsr => lowest_bit_result(b, width, |b| b & b.wrapping_sub(1), false),
        Mnemonic::Blsmsk => lowest_bit_result(b, width, |b| b ^ b.wrapping_sub(1), false),
        Mnemonic::Blsi => lowest_bit_result(b, width, |b| b & b.wrapping_neg(), true),
        Mnemonic::Lzcnt => counted_zeros(b, |b| b.leading_zeros() - (64 - 8 * width as u32)),
        Mnemonic::Tzcnt => counted_zeros(b, |b| b.trailing_zeros().min(8 * width as u32)),
        Mnemonic::Bsf => scan_result(b, width, |value| value.trailing_zeros()),
        Mnemonic::Bsr => scan_result(b, width, |value| 63 - value.leading_zeros()),
        Mnemonic::Popcnt => OperationResult::of(b.map(|b| b.count_ones().into())),
        Mnemonic::Bt => {
            let bit = b? % (8 * width as u64);
            let flags = if a? >> bit & 1 == 1 { CARRY } else { 0 };
            OperationResult {
                flags,
                known: CARRY,
                ..OperationResult::default()
            }
        }
        _ => return None,
    })
}

fn other_result(register: usize, value: Option<u64>) -> OperationResult {
    OperationResult {
        others: [Some((register, value)), None],
        ..OperationResult::default()
    }
}

/// Returns the result of `cmovcc` and `setcc`.
fn conditional_result(
    state: &State,
    instruction: &Instruction,
    [a, b]: [Option<u64>; 2],
) -> Option<OperationResult> {
    let code = instruction.condition_code();
    let holds = state.condition(code);
    Some(OperationResult::of(match (code, instruction.op_count()) {
        (ConditionCode::None, _) => return None,
        (_, 1) => holds.map(u64::from),
        _ if holds? => b,
        _ => a,
    }))
}

fn shift_result(
    instruction: &Instruction,
    a: Option<u64>,
    count: Option<u64>,
    width: usize,
) -> Option<OperationResult> {
    let count = count? & if width == 8 { 63 } else { 31 };
    if count == 0 {
        // Nothing changes, not even the flags; they were already forgotten, which is safe.
        return Some(OperationResult::of(a));
    }
    if count >= 8 * width as u64 {
        return None;
    }
    let Some(a) = a else {
        return Some(OperationResult::of(None));
    };
    let (value, carry) = match instruction.mnemonic() {
        Mnemonic::Shl => (a << count, a >> (8 * width as u64 - count) & 1),
        Mnemonic::Shr => (a >> count, a >> (count - 1) & 1),
        _ => {
            let wide = sign_extend(a, width).cast_signed();
            ((wide >> count).cast_unsigned(), a >> (count - 1) & 1)
        }
    };
    let mut outcome = logic_flags(value & width_mask(width), width);
    outcome.known &= !OVERFLOW;
    outcome.flags |= if carry == 1 { CARRY } else { 0 };
    Some(outcome)
}

fn rotate_result(
    instruction: &Instruction,
    a: Option<u64>,
    count: Option<u64>,
    width: usize,
) -> OperationResult {
    let bits = 8 * width as u32;
    let rotated = a.zip(count).map(|(a, count)| {
        let count = (count & if width == 8 { 63 } else { 31 }) as u32 % bits;
        let left = match instruction.mnemonic() {
            Mnemonic::Rol => count,
            _ => (bits - count) % bits,
        };
        match left {
            0 => a,
            left => (a << left | a >> (bits - left)) & width_mask(width),
        }
    });
    OperationResult::of(rotated)
}

fn multiply_result(
    state: &State,
    instruction: &Instruction,
    width: usize,
    [a, b, c]: [Option<u64>; 3],
) -> Option<OperationResult> {
    let factors = match instruction.op_count() {
        1 => return wide_result(state, instruction, width, a),
        2 => a.zip(b),
        _ => b.zip(c),
    };
    let Some((a, b)) = factors else {
        return Some(OperationResult::of(None));
    };
    let wide = |value: u64| i128::from(sign_extend(value, width).cast_signed());
    let value = a.wrapping_mul(b) & width_mask(width);
    Some(OperationResult {
        flags: if wide(a) * wide(b) == wide(value) {
            0
        } else {
            CARRY | OVERFLOW
        },
        known: CARRY | OVERFLOW,
        ..OperationResult::of(Some(value))
    })
}

/// Returns the result of multiplication and division with `rdx` and `rax`, of 4 and 8 bytes.
fn wide_result(
    state: &State,
    instruction: &Instruction,
    width: usize,
    by: Option<u64>,
) -> Option<OperationResult> {
    let (low, high) = match width {
        4 => (state.register(Name::EAX), state.register(Name::EDX)),
        8 => (state.register(Name::RAX), state.register(Name::RDX)),
        _ => return None,
    };
    let bits = 8 * width as u32;
    let wide = |value: u64| i128::from(sign_extend(value, width).cast_signed());
    let both = || Some(u128::from(high?) << bits | u128::from(low?));
    let results = match instruction.mnemonic() {
        Mnemonic::Mul => low.zip(by).map(|(a, b)| {
            let product = u128::from(a) * u128::from(b);
            (product, product >> bits)
        }),
        Mnemonic::Imul => low.zip(by).map(|(a, b)| {
            let product = (wide(a) * wide(b)).cast_unsigned();
            (product, product >> bits)
        }),
        Mnemonic::Div => both().zip(by.filter(|by| *by != 0)).map(|(a, by)| {
            let by = u128::from(by);
            (a / by, a % by)
        }),
        _ => both().zip(by.filter(|by| *by != 0)).map(|(a, by)| {
            let unused = 128 - 2 * bits;
            let a = (a << unused).cast_signed() >> unused;
            let by = wide(by);
            let (quotient, rest) = (a.wrapping_div(by), a.wrapping_rem(by));
            (quotient.cast_unsigned(), rest.cast_unsigned())
        }),
    };
    let part = |value: u128| value as u64 & width_mask(width);
    Some(OperationResult {
        others: [
            Some((A, results.map(|(first, _)| part(first)))),
            Some((D, results.map(|(_, second)| part(second)))),
        ],
        ..OperationResult::default()
    })
}

fn scan_result(value: Option<u64>, width: usize, of: impl Fn(u64) -> u32) -> OperationResult {
    let known = value.filter(|value| *value != 0);
    OperationResult {
        flags: 0,
        known: if known.is_some() { ZERO } else { 0 },
        ..OperationResult::of(known.map(|value| u64::from(of(value)) & width_mask(width)))
    }
}

/// Returns the result of an operation on the lowest set bit; carry depends on whether there is one.
fn lowest_bit_result(
    value: Option<u64>,
    width: usize,
    of: fn(u64) -> u64,
    carry_if_any: bool,
) -> OperationResult {
    let Some(value) = value else {
        return OperationResult::of(None);
    };
    let mut outcome = logic_flags(of(value) & width_mask(width), width);
    outcome.known &= !PARITY;
    outcome.flags |= if (value != 0) == carry_if_any {
        CARRY
    } else {
        0
    };
    outcome
}

/// Returns a count of zeros; carry is set if there is nothing else.
fn counted_zeros(value: Option<u64>, of: impl Fn(u64) -> u32) -> OperationResult {
    let Some(value) = value else {
        return OperationResult::of(None);
    };
    let zeros = u64::from(of(value));
    let carry = if value == 0 { CARRY } else { 0 };
    OperationResult {
        flags: carry | if zeros == 0 { ZERO } else { 0 },
        known: CARRY | ZERO,
        ..OperationResult::of(Some(zeros))
    }
}

/// Returns the flags of a result, with carry and overflow cleared.
fn logic_flags(value: u64, width: usize) -> OperationResult {
    let mut flags = 0;
    if value == 0 {
        flags |= ZERO;
    }
    if value >> (8 * width - 1) & 1 == 1 {
        flags |= SIGN;
    }
    if (value as u8).count_ones().is_multiple_of(2) {
        flags |= PARITY;
    }
    OperationResult {
        flags,
        known: CARRY | PARITY | ZERO | SIGN | OVERFLOW,
        ..OperationResult::of(Some(value))
    }
}

fn logic_of(
    a: Option<u64>,
    b: Option<u64>,
    width: usize,
    of: impl Fn(u64, u64) -> u64,
) -> OperationResult {
    match a.zip(b) {
        Some((a, b)) => logic_flags(of(a, b) & width_mask(width), width),
        // Carry and overflow are cleared for any operands.
        None => OperationResult {
            known: CARRY | OVERFLOW,
            ..OperationResult::of(None)
        },
    }
}

fn add_result(a: Option<u64>, b: Option<u64>, carry: bool, width: usize) -> OperationResult {
    let Some((a, b)) = a.zip(b) else {
        return OperationResult::of(None);
    };
    let wide = u128::from(a) + u128::from(b) + u128::from(carry);
    let value = wide as u64 & width_mask(width);
    let mut outcome = logic_flags(value, width);
    if wide > u128::from(width_mask(width)) {
        outcome.flags |= CARRY;
    }
    if (a ^ value) & (b ^ value) & sign_bit(width) != 0 {
        outcome.flags |= OVERFLOW;
    }
    outcome
}

fn subtract_result(a: Option<u64>, b: Option<u64>, borrow: bool, width: usize) -> OperationResult {
    let Some((a, b)) = a.zip(b) else {
        return OperationResult::of(None);
    };
    let value = a.wrapping_sub(b).wrapping_sub(borrow.into()) & width_mask(width);
    let mut outcome = logic_flags(value, width);
    if u128::from(a) < u128::from(b) + u128::from(borrow) {
        outcome.flags |= CARRY;
    }
    if (a ^ b) & (a ^ value) & sign_bit(width) != 0 {
        outcome.flags |= OVERFLOW;
    }
    outcome
}

fn sign_bit(width: usize) -> u64 {
    1 << (8 * width - 1)
}

/// Returns a word whose bits are all copies of the sign bit.
fn sign_of(value: u64, width: usize) -> u64 {
    if value & sign_bit(width) != 0 {
        width_mask(width)
    } else {
        0
    }
}
