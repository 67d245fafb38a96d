//! Registers and flags by number, and values narrower than a register.

use iced_x86::{Register as Name, RflagsBits};

/// Returns the index of an integer register of any width.
pub(super) fn integer_index(name: Name) -> Option<usize> {
    let index = (name.full_register() as usize).checked_sub(Name::RAX as usize)?;
    (index < 16).then_some(index)
}

/// Returns the index of a vector register of any width.
pub(super) fn vector_index(name: Name) -> Option<usize> {
    let index = (name.full_register() as usize).checked_sub(Name::ZMM0 as usize)?;
    (index < 32).then_some(index)
}

/// Flags that conditions test, as bits of a mask.
pub(super) const CARRY: u8 = 1;
pub(super) const PARITY: u8 = 2;
pub(super) const ZERO: u8 = 4;
pub(super) const SIGN: u8 = 8;
pub(super) const OVERFLOW: u8 = 16;

/// Positions of these flags in `rflags`.
pub(super) const PLACES: [(u8, u32, u32); 5] = [
    (CARRY, 0, RflagsBits::CF),
    (PARITY, 2, RflagsBits::PF),
    (ZERO, 6, RflagsBits::ZF),
    (SIGN, 7, RflagsBits::SF),
    (OVERFLOW, 11, RflagsBits::OF),
];

/// Returns these flags from `rflags` bits.
pub(super) fn flags_of(bits: u32) -> u8 {
    let of = |(flag, _, bit): (u8, u32, u32)| if bits & bit != 0 { flag } else { 0 };
    PLACES.into_iter().map(of).sum()
}

/// Returns a mask of all bits of `width` bytes.
pub(super) fn width_mask(width: usize) -> u64 {
    if width >= 8 {
        u64::MAX
    } else {
        (1 << (8 * width)) - 1
    }
}

/// Sign-extends a value of `width` bytes.
pub(super) fn sign_extend(value: u64, width: usize) -> u64 {
    let unused = 64 - 8 * width.clamp(1, 8);
    (value << unused)
        .cast_signed()
        .wrapping_shr(unused as u32)
        .cast_unsigned()
}

/// Returns a register after a write to a part of it.
pub(super) fn merge_part(name: Name, before: Option<u64>, value: Option<u64>) -> Option<u64> {
    let value = value?;
    match name {
        Name::AH | Name::BH | Name::CH | Name::DH => Some(before? & !0xff00 | (value & 0xff) << 8),
        name if name.size() >= 4 => Some(value & width_mask(name.size())),
        name => Some(before? & !width_mask(name.size()) | value & width_mask(name.size())),
    }
}
