use crate::Architecture;
use std::fmt;

/// A register for dependences: its parts (`al`, `eax`, `rax`; `w0`, `x0`) are the same register.
/// The number has a meaning only together with an [`Architecture`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Register(u8);

impl Register {
    /// The 16 (x86-64, in the encoding's order: `rax` is 0) or 31 (AArch64) integer registers, and
    /// AArch64's stack pointer, which is 31.
    pub(crate) const INTEGER: u8 = 0;
    /// The 32 vector registers.
    pub(crate) const VECTOR: u8 = 32;
    /// Mask (`k0`) or predicate (`p0`) registers.
    pub(crate) const MASK: u8 = 64;
    /// The registers of the x87 stack.
    pub(crate) const X87: u8 = 80;
    /// The condition flags.
    pub const FLAGS: Self = Self(90);

    /// Returns the `index`th of the registers that start at `bank`.
    pub(crate) const fn new(bank: u8, index: u8) -> Self {
        Self(bank + index)
    }

    /// Returns the integer register of this number in the encoding (less than 32).
    pub const fn integer(index: u8) -> Self {
        Self::new(Self::INTEGER, index)
    }

    /// Returns its number, less than 128.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Returns the stack pointer.
    pub fn stack_pointer(architecture: Architecture) -> Self {
        Self::integer(match architecture {
            Architecture::X86_64 => 4,
            Architecture::Aarch64 => 31,
        })
    }
}

/// A set of registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RegisterSet(u128);

impl RegisterSet {
    /// Adds a register.
    pub fn insert(&mut self, register: Register) {
        self.0 |= 1 << register.0;
    }

    /// Returns whether the register is in it.
    pub fn contains(self, register: Register) -> bool {
        self.0 >> register.0 & 1 == 1
    }

    /// Returns whether the two have a register in common.
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the registers in either set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the registers, by number.
    pub fn iter(self) -> impl Iterator<Item = Register> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let index = rest.trailing_zeros();
            rest &= rest.wrapping_sub(1);
            (index < 128).then_some(Register(index as u8))
        })
    }
}

impl FromIterator<Register> for RegisterSet {
    fn from_iter<I: IntoIterator<Item = Register>>(registers: I) -> Self {
        let mut set = Self::default();
        registers
            .into_iter()
            .for_each(|register| set.insert(register));
        set
    }
}

impl fmt::Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            number @ 0..32 => write!(f, "r{number}"),
            number @ 32..64 => write!(f, "v{}", number - Self::VECTOR),
            number @ 64..80 => write!(f, "p{}", number - Self::MASK),
            number @ 80..90 => write!(f, "st{}", number - Self::X87),
            _ => f.write_str("flags"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_gives_back_what_was_put_in() {
        let registers = [
            Register::integer(3),
            Register::new(Register::VECTOR, 31),
            Register::FLAGS,
        ];
        let set: RegisterSet = registers.into_iter().collect();
        assert!(set.iter().eq(registers));
        assert!(set.contains(Register::FLAGS) && !set.contains(Register::integer(4)));
        assert_eq!(RegisterSet::default().iter().next(), None);
    }
}
