//! Register values known along the code before an indirect jump.

use super::code::CodeMap;
use super::constants::Constants;
use crate::effect::{AddressSum, Condition, RegisterEffect};
use crate::{Instruction, Register};
use rustc_hash::FxHashMap;

/// Largest added constant that makes another index; larger ones are addresses.
const MAX_INDEX_OFFSET: u64 = 0x1000;

/// A register's value, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SymbolicValue {
    /// An unknown value; equal numbers mean equal values.
    Unknown(u32),
    Constant(u64),
    /// `constant + (index << shift)`
    Scaled {
        index: u32,
        shift: u8,
        constant: u64,
    },
    /// Computed from a table's entry.
    Entry(TableEntry),
}

/// `base + (extended(table[index]) << shift)`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableEntry {
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

pub(super) struct SymbolicValues<'a> {
    code: &'a CodeMap<'a>,
    constants: &'a Constants,
    registers: FxHashMap<Register, SymbolicValue>,
    /// Upper bounds on unknown values.
    bounds: FxHashMap<u32, u64>,
    /// The value that the flags compare, and the constant.
    compared: Option<(u32, u64)>,
    unknowns: u32,
}

impl<'a> SymbolicValues<'a> {
    pub fn new(code: &'a CodeMap<'a>, constants: &'a Constants) -> Self {
        Self {
            code,
            constants,
            registers: FxHashMap::default(),
            bounds: FxHashMap::default(),
            compared: None,
            unknowns: 0,
        }
    }

    /// Returns the upper bound of a value, if known.
    pub fn bound(&self, index: u32) -> Option<u64> {
        self.bounds.get(&index).copied()
    }

    fn unknown_value(&mut self) -> SymbolicValue {
        self.unknowns += 1;
        SymbolicValue::Unknown(self.unknowns)
    }

    pub fn value(&mut self, register: Register) -> SymbolicValue {
        if let Some(value) = self.registers.get(&register) {
            return *value;
        }
        let value = match self.constants.of(self.code, register) {
            Some(constant) => SymbolicValue::Constant(constant),
            None => self.unknown_value(),
        };
        self.registers.insert(register, value);
        value
    }

    /// Executes an instruction; `taken` is the direction of a conditional branch.
    pub fn step(&mut self, instruction: &Instruction, effect: RegisterEffect, taken: bool) {
        let new = match effect {
            RegisterEffect::Constant { to, value } => Some((to, SymbolicValue::Constant(value))),
            RegisterEffect::Copy {
                to,
                from,
                bits,
                signed,
            } => Some((to, self.copy_register(from, bits, signed))),
            RegisterEffect::Add { to, sum } => Some((to, self.added_value(sum))),
            RegisterEffect::And { to, from, mask } => Some((to, self.and_mask(from, mask))),
            RegisterEffect::Load {
                to,
                address,
                width,
                signed,
            } => Some((to, self.load(address, width, signed))),
            RegisterEffect::Branch(condition) => {
                self.take_branch(condition, taken);
                None
            }
            _ => None,
        };
        if let RegisterEffect::Compare { register, value } = effect {
            self.compared = match self.value(register) {
                SymbolicValue::Unknown(index) => Some((index, value)),
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
                _ => self.unknown_value(),
            };
            self.registers.insert(register, value);
        }
    }

    fn take_branch(&mut self, condition: Condition, taken: bool) {
        let Some((index, value)) = self.compared else {
            return;
        };
        let bound = match (condition, taken) {
            (Condition::Above, false) | (Condition::BelowOrEqual, true) => Some(value),
            (Condition::AboveOrEqual, false) | (Condition::Below, true) => value.checked_sub(1),
            _ => None,
        };
        if let Some(bound) = bound {
            self.limit_index(index, bound);
        }
    }

    fn limit_index(&mut self, index: u32, bound: u64) {
        let known = self.bounds.entry(index).or_insert(bound);
        *known = bound.min(*known);
    }

    fn copy_register(&mut self, from: Register, bits: u8, signed: bool) -> SymbolicValue {
        match self.value(from) {
            SymbolicValue::Constant(value) => {
                SymbolicValue::Constant(extend_bits(value, bits, signed))
            }
            SymbolicValue::Unknown(index) => {
                // Bounds apply to the index, which is this part of the register.
                if bits <= 8 && !signed {
                    self.limit_index(index, 0xff);
                }
                SymbolicValue::Unknown(index)
            }
            SymbolicValue::Entry(entry) => self.extended_entry(entry, bits, signed),
            scaled @ SymbolicValue::Scaled { .. } if bits == 64 => scaled,
            SymbolicValue::Scaled { .. } => self.unknown_value(),
        }
    }

    fn extended_entry(&mut self, entry: TableEntry, bits: u8, signed: bool) -> SymbolicValue {
        let loaded = entry.width * 8;
        if entry.base != 0 || entry.shift != 0 || bits < loaded {
            return if bits == 64 {
                SymbolicValue::Entry(entry)
            } else {
                self.unknown_value()
            };
        }
        let signed = if bits == loaded { signed } else { entry.signed };
        SymbolicValue::Entry(TableEntry { signed, ..entry })
    }

    fn and_mask(&mut self, from: Register, mask: u64) -> SymbolicValue {
        match self.value(from) {
            SymbolicValue::Constant(value) => SymbolicValue::Constant(value & mask),
            _ => {
                let value = self.unknown_value();
                if let SymbolicValue::Unknown(index) = value {
                    self.limit_index(index, mask);
                }
                value
            }
        }
    }

    fn added_value(&mut self, sum: AddressSum) -> SymbolicValue {
        match self.sum(sum) {
            SymbolicValue::Scaled {
                shift: 0, constant, ..
            } if (constant as i64).unsigned_abs() < MAX_INDEX_OFFSET => self.unknown_value(),
            value => value,
        }
    }

    /// Returns the value of an address.
    pub fn sum(&mut self, sum: AddressSum) -> SymbolicValue {
        let mut constant = sum.displacement;
        let mut other = None;
        let terms = [
            (sum.base, 0, 64, false),
            (sum.index, sum.shift, sum.bits, sum.signed),
        ];
        for (register, shift, bits, signed) in terms {
            let Some(register) = register else { continue };
            match self.value(register) {
                SymbolicValue::Constant(value) => {
                    let value = extend_bits(value, bits, signed);
                    constant = constant.wrapping_add(value.wrapping_shl(shift.into()));
                }
                _ if other.is_some() => return self.unknown_value(),
                value => other = Some((value, shift, bits, signed)),
            }
        }
        let Some((value, shift, bits, signed)) = other else {
            return SymbolicValue::Constant(constant);
        };
        match value {
            SymbolicValue::Unknown(index) if shift == 0 && constant == 0 => {
                SymbolicValue::Unknown(index)
            }
            SymbolicValue::Unknown(index) => SymbolicValue::Scaled {
                index,
                shift,
                constant,
            },
            SymbolicValue::Scaled {
                index,
                shift: scaled,
                constant: first,
            } if shift == 0 => SymbolicValue::Scaled {
                index,
                shift: scaled,
                constant: constant.wrapping_add(first),
            },
            SymbolicValue::Entry(entry) => match self.extended_entry(entry, bits, signed) {
                SymbolicValue::Entry(entry) if entry.base == 0 || shift == 0 => {
                    SymbolicValue::Entry(TableEntry {
                        base: constant.wrapping_add(entry.base),
                        shift: entry.shift + shift,
                        ..entry
                    })
                }
                _ => self.unknown_value(),
            },
            _ => self.unknown_value(),
        }
    }

    /// Returns the value loaded from an address.
    pub fn load(&mut self, address: AddressSum, width: u8, signed: bool) -> SymbolicValue {
        match self.sum(address) {
            SymbolicValue::Scaled {
                index,
                shift,
                constant,
            } if shift < 4 && 1 << shift >= width => SymbolicValue::Entry(TableEntry {
                table: constant,
                stride: shift,
                width,
                signed,
                index,
                base: 0,
                shift: 0,
            }),
            _ => self.unknown_value(),
        }
    }
}

/// Returns the low `bits` of a value, extended to 64.
pub(super) fn extend_bits(value: u64, bits: u8, signed: bool) -> u64 {
    let unused = 64_u32.saturating_sub(bits.into()).min(63);
    if signed {
        ((value << unused) as i64 >> unused) as u64
    } else {
        value << unused >> unused
    }
}
