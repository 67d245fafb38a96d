//! What the modelled instructions compute.

use super::names::{CARRY, OVERFLOW, PARITY, SIGN, ZERO, extend, integer, mask};
use super::state::{State, signed};
use iced_x86::{ConditionCode, Instruction, Mnemonic, OpKind, Register as Name};

/// The result of an operation: what is known of it, and of the flags.
#[derive(Default)]
pub(super) struct Outcome {
    pub value: Option<u64>,
    /// True if the first operand is written.
    pub writes: bool,
    pub flags: u8,
    pub known: u8,
    /// Other integer registers that are written.
    pub others: [Option<(usize, Option<u64>)>; 2],
}

impl Outcome {
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

    /// As a comparison: only the flags.
    fn compared(mut self) -> Self {
        self.writes = false;
        self
    }
}

/// `rax` and `rdx`.
const A: usize = 0;
const D: usize = 2;

pub(super) fn evaluate(
    state: &State,
    instruction: &Instruction,
    width: usize,
    [a, b, c]: [Option<u64>; 3],
) -> Option<Outcome> {
    let b_wide = b;
    let b = b.map(|b| b & mask(width));
    let same = instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register
        && instruction.op0_register() == instruction.op1_register();
    let carry = || state.flag(CARRY);
    Some(match instruction.mnemonic() {
        Mnemonic::Mov | Mnemonic::Movzx => Outcome::of(b_wide),
        Mnemonic::Movsx | Mnemonic::Movsxd => {
            let from = match instruction.op1_kind() {
                OpKind::Memory => instruction.memory_size().size(),
                _ => instruction.op1_register().size(),
            };
            Outcome::of(b_wide.map(|value| extend(value, from)))
        }
        Mnemonic::Cdqe => other(A, signed(state, Name::EAX)),
        Mnemonic::Cwde => other(A, signed(state, Name::AX).map(|value| value & mask(4))),
        Mnemonic::Cdq => other(
            D,
            signed(state, Name::EAX).map(|value| (value >> 32) & mask(4)),
        ),
        Mnemonic::Cqo => other(D, state.register(Name::RAX).map(|value| sign_of(value, 8))),
        Mnemonic::Lea => Outcome::of(state.sum(instruction)),
        Mnemonic::Xor | Mnemonic::Sub if same => logic(0, width),
        Mnemonic::Cmp if same => logic(0, width).compared(),
        Mnemonic::Add => add(a, b, false, width),
        Mnemonic::Sub => subtract(a, b, false, width),
        Mnemonic::Cmp => subtract(a, b, false, width).compared(),
        Mnemonic::Adc => add(a, b, carry()?, width),
        Mnemonic::Sbb if same => {
            let value = if carry()? { mask(width) } else { 0 };
            subtract(Some(0), Some(value & 1), false, width)
        }
        Mnemonic::Sbb => subtract(a, b, carry()?, width),
        Mnemonic::And => logic_of(a, b, width, |a, b| a & b),
        Mnemonic::Test => logic_of(a, b, width, |a, b| a & b).compared(),
        Mnemonic::Or => logic_of(a, b, width, |a, b| a | b),
        Mnemonic::Xor => logic_of(a, b, width, |a, b| a ^ b),
        Mnemonic::Inc => add(a, Some(1), false, width).but_carry(),
        Mnemonic::Dec => subtract(a, Some(1), false, width).but_carry(),
        Mnemonic::Neg => subtract(Some(0), a, false, width),
        Mnemonic::Not => Outcome::of(a.map(|a| !a & mask(width))),
        Mnemonic::Shl | Mnemonic::Shr | Mnemonic::Sar => shift(instruction, a, b_wide, width)?,
        Mnemonic::Rol | Mnemonic::Ror => rotate(instruction, a, b_wide, width),
        Mnemonic::Imul => product(state, instruction, width, [a, b_wide, c])?,
        Mnemonic::Mul | Mnemonic::Div | Mnemonic::Idiv => long(state, instruction, width, a)?,
        Mnemonic::Bswap if width == 8 => Outcome::of(a.map(u64::swap_bytes)),
        Mnemonic::Bswap => Outcome::of(a.map(|a| u64::from((a as u32).swap_bytes()))),
        Mnemonic::Movbe => Outcome::of(b.map(|b| b.swap_bytes() >> (64 - 8 * width))),
        Mnemonic::Andn => logic_of(b, c, width, |b, c| !b & c),
        Mnemonic::Shlx | Mnemonic::Shrx | Mnemonic::Sarx => {
            let count = c.map(|count| count & (8 * width as u64 - 1));
            let of = |(b, count): (u64, u64)| match instruction.mnemonic() {
                Mnemonic::Shlx => b << count,
                Mnemonic::Shrx => b >> count,
                _ => (extend(b, width).cast_signed() >> count).cast_unsigned(),
            };
            Outcome::of(b.zip(count).map(of).map(|value| value & mask(width)))
        }
        Mnemonic::Bzhi => match b.zip(c.map(|c| c & 0xff)) {
            Some((b, count)) if count < 8 * width as u64 => logic(b & !(u64::MAX << count), width),
            Some((b, _)) => Outcome {
                flags: logic(b, width).flags | CARRY,
                ..logic(b, width)
            },
            None => Outcome::of(None),
        },
        Mnemonic::Blsr => lowest(b, width, |b| b & b.wrapping_sub(1), false),
        Mnemonic::Blsmsk => lowest(b, width, |b| b ^ b.wrapping_sub(1), false),
        Mnemonic::Blsi => lowest(b, width, |b| b & b.wrapping_neg(), true),
        Mnemonic::Lzcnt => counted(b, |b| b.leading_zeros() - (64 - 8 * width as u32)),
        Mnemonic::Tzcnt => counted(b, |b| b.trailing_zeros().min(8 * width as u32)),
        Mnemonic::Bsf => scan(b, width, |value| value.trailing_zeros()),
        Mnemonic::Bsr => scan(b, width, |value| 63 - value.leading_zeros()),
        Mnemonic::Popcnt => Outcome::of(b.map(|b| b.count_ones().into())),
        Mnemonic::Bt => {
            let bit = b? % (8 * width as u64);
            let flags = if a? >> bit & 1 == 1 { CARRY } else { 0 };
            Outcome {
                flags,
                known: CARRY,
                ..Outcome::default()
            }
        }
        Mnemonic::Xchg if instruction.op1_kind() == OpKind::Register && width >= 4 => Outcome {
            others: [integer(instruction.op1_register()).map(|to| (to, a)), None],
            ..Outcome::of(b)
        },
        _ => conditional(state, instruction, [a, b])?,
    })
}

fn other(register: usize, value: Option<u64>) -> Outcome {
    Outcome {
        others: [Some((register, value)), None],
        ..Outcome::default()
    }
}

/// `cmovcc` and `setcc`.
fn conditional(
    state: &State,
    instruction: &Instruction,
    [a, b]: [Option<u64>; 2],
) -> Option<Outcome> {
    let code = instruction.condition_code();
    let holds = state.condition(code);
    Some(Outcome::of(match (code, instruction.op_count()) {
        (ConditionCode::None, _) => return None,
        (_, 1) => holds.map(u64::from),
        _ if holds? => b,
        _ => a,
    }))
}

fn shift(
    instruction: &Instruction,
    a: Option<u64>,
    count: Option<u64>,
    width: usize,
) -> Option<Outcome> {
    let count = count? & if width == 8 { 63 } else { 31 };
    if count == 0 {
        // Nothing changes, not even the flags; they were forgotten, which is not wrong.
        return Some(Outcome::of(a));
    }
    if count >= 8 * width as u64 {
        return None;
    }
    let Some(a) = a else {
        return Some(Outcome::of(None));
    };
    let (value, carry) = match instruction.mnemonic() {
        Mnemonic::Shl => (a << count, a >> (8 * width as u64 - count) & 1),
        Mnemonic::Shr => (a >> count, a >> (count - 1) & 1),
        _ => {
            let wide = extend(a, width).cast_signed();
            ((wide >> count).cast_unsigned(), a >> (count - 1) & 1)
        }
    };
    let mut outcome = logic(value & mask(width), width);
    outcome.known &= !OVERFLOW;
    outcome.flags |= if carry == 1 { CARRY } else { 0 };
    Some(outcome)
}

fn rotate(instruction: &Instruction, a: Option<u64>, count: Option<u64>, width: usize) -> Outcome {
    let bits = 8 * width as u32;
    let rotated = a.zip(count).map(|(a, count)| {
        let count = (count & if width == 8 { 63 } else { 31 }) as u32 % bits;
        let left = match instruction.mnemonic() {
            Mnemonic::Rol => count,
            _ => (bits - count) % bits,
        };
        match left {
            0 => a,
            left => (a << left | a >> (bits - left)) & mask(width),
        }
    });
    Outcome::of(rotated)
}

fn product(
    state: &State,
    instruction: &Instruction,
    width: usize,
    [a, b, c]: [Option<u64>; 3],
) -> Option<Outcome> {
    let factors = match instruction.op_count() {
        1 => return long(state, instruction, width, a),
        2 => a.zip(b),
        _ => b.zip(c),
    };
    let Some((a, b)) = factors else {
        return Some(Outcome::of(None));
    };
    let wide = |value: u64| i128::from(extend(value, width).cast_signed());
    let value = a.wrapping_mul(b) & mask(width);
    Some(Outcome {
        flags: if wide(a) * wide(b) == wide(value) {
            0
        } else {
            CARRY | OVERFLOW
        },
        known: CARRY | OVERFLOW,
        ..Outcome::of(Some(value))
    })
}

/// Multiplication and division with `rdx` and `rax`, of 4 and 8 bytes.
fn long(
    state: &State,
    instruction: &Instruction,
    width: usize,
    by: Option<u64>,
) -> Option<Outcome> {
    let (low, high) = match width {
        4 => (state.register(Name::EAX), state.register(Name::EDX)),
        8 => (state.register(Name::RAX), state.register(Name::RDX)),
        _ => return None,
    };
    let bits = 8 * width as u32;
    let wide = |value: u64| i128::from(extend(value, width).cast_signed());
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
    let part = |value: u128| value as u64 & mask(width);
    Some(Outcome {
        others: [
            Some((A, results.map(|(first, _)| part(first)))),
            Some((D, results.map(|(_, second)| part(second)))),
        ],
        ..Outcome::default()
    })
}

fn scan(value: Option<u64>, width: usize, of: impl Fn(u64) -> u32) -> Outcome {
    let known = value.filter(|value| *value != 0);
    Outcome {
        flags: 0,
        known: if known.is_some() { ZERO } else { 0 },
        ..Outcome::of(known.map(|value| u64::from(of(value)) & mask(width)))
    }
}

/// Returns what is computed of the lowest bit that is set; carry tells whether there is none, or one.
fn lowest(value: Option<u64>, width: usize, of: fn(u64) -> u64, carry_if_any: bool) -> Outcome {
    let Some(value) = value else {
        return Outcome::of(None);
    };
    let mut outcome = logic(of(value) & mask(width), width);
    outcome.known &= !PARITY;
    outcome.flags |= if (value != 0) == carry_if_any {
        CARRY
    } else {
        0
    };
    outcome
}

/// A number of zeros; carry tells that there is nothing else.
fn counted(value: Option<u64>, of: impl Fn(u64) -> u32) -> Outcome {
    let Some(value) = value else {
        return Outcome::of(None);
    };
    let zeros = u64::from(of(value));
    let carry = if value == 0 { CARRY } else { 0 };
    Outcome {
        flags: carry | if zeros == 0 { ZERO } else { 0 },
        known: CARRY | ZERO,
        ..Outcome::of(Some(zeros))
    }
}

/// The flags of a result, of which carry and overflow are cleared.
fn logic(value: u64, width: usize) -> Outcome {
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
    Outcome {
        flags,
        known: CARRY | PARITY | ZERO | SIGN | OVERFLOW,
        ..Outcome::of(Some(value))
    }
}

fn logic_of(a: Option<u64>, b: Option<u64>, width: usize, of: impl Fn(u64, u64) -> u64) -> Outcome {
    match a.zip(b) {
        Some((a, b)) => logic(of(a, b) & mask(width), width),
        // Carry and overflow are cleared whatever the operands are.
        None => Outcome {
            known: CARRY | OVERFLOW,
            ..Outcome::of(None)
        },
    }
}

fn add(a: Option<u64>, b: Option<u64>, carry: bool, width: usize) -> Outcome {
    let Some((a, b)) = a.zip(b) else {
        return Outcome::of(None);
    };
    let wide = u128::from(a) + u128::from(b) + u128::from(carry);
    let value = wide as u64 & mask(width);
    let mut outcome = logic(value, width);
    if wide > u128::from(mask(width)) {
        outcome.flags |= CARRY;
    }
    if (a ^ value) & (b ^ value) & sign(width) != 0 {
        outcome.flags |= OVERFLOW;
    }
    outcome
}

fn subtract(a: Option<u64>, b: Option<u64>, borrow: bool, width: usize) -> Outcome {
    let Some((a, b)) = a.zip(b) else {
        return Outcome::of(None);
    };
    let value = a.wrapping_sub(b).wrapping_sub(borrow.into()) & mask(width);
    let mut outcome = logic(value, width);
    if u128::from(a) < u128::from(b) + u128::from(borrow) {
        outcome.flags |= CARRY;
    }
    if (a ^ b) & (a ^ value) & sign(width) != 0 {
        outcome.flags |= OVERFLOW;
    }
    outcome
}

fn sign(width: usize) -> u64 {
    1 << (8 * width - 1)
}

/// All bits as the highest.
fn sign_of(value: u64, width: usize) -> u64 {
    if value & sign(width) != 0 {
        mask(width)
    } else {
        0
    }
}
