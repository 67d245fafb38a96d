use crate::Register;

/// The effect of an instruction on values from which addresses of jump tables are computed. All
/// other instructions are [`RegisterEffect::Other`]: the written registers are unknown afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegisterEffect {
    /// `to = value`
    Constant { to: Register, value: u64 },
    /// The low `bits` of `from` go to `to`.
    Copy {
        to: Register,
        from: Register,
        bits: u8,
        signed: bool,
    },
    /// `to = sum`
    Add { to: Register, sum: AddressSum },
    /// `to = from & mask`
    And {
        to: Register,
        from: Register,
        mask: u64,
    },
    /// `to` = the `width` bytes at the address.
    Load {
        to: Register,
        address: AddressSum,
        width: u8,
        signed: bool,
    },
    /// The flags compare the register with the value.
    Compare { register: Register, value: u64 },
    /// Jumps to the value of the register.
    JumpRegister(Register),
    /// Jumps to the 8-byte value at the address.
    JumpMemory(AddressSum),
    /// Jumps to the target of its [`crate::Flow`] if the flags meet this condition.
    Branch(Condition),
    /// None of these effects.
    Other,
}

/// `base + (index << shift) + displacement`, where the low `bits` of the index are extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressSum {
    pub base: Option<Register>,
    pub index: Option<Register>,
    pub shift: u8,
    pub bits: u8,
    pub signed: bool,
    pub displacement: u64,
}

/// The conditions that bound an unsigned index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Above,
    AboveOrEqual,
    Below,
    BelowOrEqual,
    Other,
}
