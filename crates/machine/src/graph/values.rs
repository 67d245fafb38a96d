//! What is known of the registers along a piece of code that ends in an indirect jump.

use super::code::Code;
use super::constants::Constants;
use crate::effect::{Condition, Effect, Sum};
use crate::{Instruction, Register};
use rustc_hash::FxHashMap;

/// Smaller constants that are added make another index, larger ones an address.
const MAX_INDEX_OFFSET: u64 = 0x1000;

/// What is known of the value of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Some value; equal numbers are equal values.
    Unknown(u32),
    Constant(u64),
    /// `constant + (index << shift)`
    Scaled {
        index: u32,
        shift: u8,
        constant: u64,
    },
    /// Made from an entry of a table.
    Entry(Entry),
}

/// `base + (extended(table[index]) << shift)`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub table: u64,
    /// Bytes between entries, as a power of two.
    pub stride: u8,
    /// Bytes of an entry.
    pub width: u8,
    pub signed: bool,
    pub index: u32,
    pub base: u64,
    pub shift: u8,
}

pub(super) struct Values<'a> {
    code: &'a Code<'a>,
    constants: &'a Constants,
    registers: FxHashMap<Register, Value>,
    /// The largest that an unknown value can be.
    bounds: FxHashMap<u32, u64>,
    /// What the flags compare.
    compared: Option<(u32, u64)>,
    unknowns: u32,
}

impl<'a> Values<'a> {
    pub fn new(code: &'a Code<'a>, constants: &'a Constants) -> Self {
        Self {
            code,
            constants,
            registers: FxHashMap::default(),
            bounds: FxHashMap::default(),
            compared: None,
            unknowns: 0,
        }
    }

    /// The largest that a value can be, if that is known.
    pub fn bound(&self, index: u32) -> Option<u64> {
        self.bounds.get(&index).copied()
    }

    fn unknown(&mut self) -> Value {
        self.unknowns += 1;
        Value::Unknown(self.unknowns)
    }

    pub fn value(&mut self, register: Register) -> Value {
        if let Some(value) = self.registers.get(&register) {
            return *value;
        }
        let value = match self.constants.of(self.code, register) {
            Some(constant) => Value::Constant(constant),
            None => self.unknown(),
        };
        self.registers.insert(register, value);
        value
    }

    /// Executes an instruction; `taken` says which way a conditional branch went.
    pub fn step(&mut self, instruction: &Instruction, effect: Effect, taken: bool) {
        let new = match effect {
            Effect::Constant { to, value } => Some((to, Value::Constant(value))),
            Effect::Copy {
                to,
                from,
                bits,
                signed,
            } => Some((to, self.copy(from, bits, signed))),
            Effect::Add { to, sum } => Some((to, self.added(sum))),
            Effect::And { to, from, mask } => Some((to, self.and(from, mask))),
            Effect::Load {
                to,
                address,
                width,
                signed,
            } => Some((to, self.load(address, width, signed))),
            Effect::Branch(condition) => {
                self.branch(condition, taken);
                None
            }
            _ => None,
        };
        if let Effect::Compare { register, value } = effect {
            self.compared = match self.value(register) {
                Value::Unknown(index) => Some((index, value)),
                _ => None,
            };
        } else if instruction.writes.contains(Register::FLAGS) {
            self.compared = None;
        }
        if !instruction.flow.ends_block() && instruction.flow != crate::Flow::Next {
            // A call.
            self.registers.clear();
            self.compared = None;
        }
        for register in instruction.writes.iter() {
            let value = match new {
                Some((to, value)) if to == register => value,
                _ => self.unknown(),
            };
            self.registers.insert(register, value);
        }
    }

    fn branch(&mut self, condition: Condition, taken: bool) {
        let Some((index, value)) = self.compared else {
            return;
        };
        let bound = match (condition, taken) {
            (Condition::Above, false) | (Condition::BelowOrEqual, true) => Some(value),
            (Condition::AboveOrEqual, false) | (Condition::Below, true) => value.checked_sub(1),
            _ => None,
        };
        if let Some(bound) = bound {
            self.limit(index, bound);
        }
    }

    fn limit(&mut self, index: u32, bound: u64) {
        let known = self.bounds.entry(index).or_insert(bound);
        *known = bound.min(*known);
    }

    fn copy(&mut self, from: Register, bits: u8, signed: bool) -> Value {
        match self.value(from) {
            Value::Constant(value) => Value::Constant(extend(value, bits, signed)),
            Value::Unknown(index) => {
                // Bounds are of what is indexed with, so of this part of the register.
                if bits <= 8 && !signed {
                    self.limit(index, 0xff);
                }
                Value::Unknown(index)
            }
            Value::Entry(entry) => self.extended(entry, bits, signed),
            scaled @ Value::Scaled { .. } if bits == 64 => scaled,
            Value::Scaled { .. } => self.unknown(),
        }
    }

    fn extended(&mut self, entry: Entry, bits: u8, signed: bool) -> Value {
        let loaded = entry.width * 8;
        if entry.base != 0 || entry.shift != 0 || bits < loaded {
            return if bits == 64 {
                Value::Entry(entry)
            } else {
                self.unknown()
            };
        }
        let signed = if bits == loaded { signed } else { entry.signed };
        Value::Entry(Entry { signed, ..entry })
    }

    fn and(&mut self, from: Register, mask: u64) -> Value {
        match self.value(from) {
            Value::Constant(value) => Value::Constant(value & mask),
            _ => {
                let value = self.unknown();
                if let Value::Unknown(index) = value {
                    self.limit(index, mask);
                }
                value
            }
        }
    }

    fn added(&mut self, sum: Sum) -> Value {
        match self.sum(sum) {
            Value::Scaled {
                shift: 0, constant, ..
            } if (constant as i64).unsigned_abs() < MAX_INDEX_OFFSET => self.unknown(),
            value => value,
        }
    }

    /// The value of an address.
    pub fn sum(&mut self, sum: Sum) -> Value {
        let mut constant = sum.displacement;
        let mut other = None;
        let terms = [
            (sum.base, 0, 64, false),
            (sum.index, sum.shift, sum.bits, sum.signed),
        ];
        for (register, shift, bits, signed) in terms {
            let Some(register) = register else { continue };
            match self.value(register) {
                Value::Constant(value) => {
                    let value = extend(value, bits, signed);
                    constant = constant.wrapping_add(value.wrapping_shl(shift.into()));
                }
                _ if other.is_some() => return self.unknown(),
                value => other = Some((value, shift, bits, signed)),
            }
        }
        let Some((value, shift, bits, signed)) = other else {
            return Value::Constant(constant);
        };
        match value {
            Value::Unknown(index) if shift == 0 && constant == 0 => Value::Unknown(index),
            Value::Unknown(index) => Value::Scaled {
                index,
                shift,
                constant,
            },
            Value::Scaled {
                index,
                shift: scaled,
                constant: first,
            } if shift == 0 => Value::Scaled {
                index,
                shift: scaled,
                constant: constant.wrapping_add(first),
            },
            Value::Entry(entry) => match self.extended(entry, bits, signed) {
                Value::Entry(entry) if entry.base == 0 || shift == 0 => Value::Entry(Entry {
                    base: constant.wrapping_add(entry.base),
                    shift: entry.shift + shift,
                    ..entry
                }),
                _ => self.unknown(),
            },
            _ => self.unknown(),
        }
    }

    /// Returns what is loaded from an address.
    pub fn load(&mut self, address: Sum, width: u8, signed: bool) -> Value {
        match self.sum(address) {
            Value::Scaled {
                index,
                shift,
                constant,
            } if shift < 4 && 1 << shift >= width => Value::Entry(Entry {
                table: constant,
                stride: shift,
                width,
                signed,
                index,
                base: 0,
                shift: 0,
            }),
            _ => self.unknown(),
        }
    }
}

/// The low `bits` of a value, extended to 64.
pub(super) fn extend(value: u64, bits: u8, signed: bool) -> u64 {
    let unused = 64_u32.saturating_sub(bits.into()).min(63);
    if signed {
        ((value << unused) as i64 >> unused) as u64
    } else {
        value << unused >> unused
    }
}
