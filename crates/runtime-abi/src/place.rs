//! The meaning of a code address for a sample there.

/// A resolved place of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Code in scope: the sample belongs to this fragment.
    Fragment(u32),
    /// Code that is not in scope: the sample belongs to the caller.
    Caller(Rule),
    /// Code that is not in scope, with a caller that cannot be found.
    End,
}

/// The rule that finds a function's caller from one place in the function: the row of its unwind
/// table, in the form that almost all rows have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The canonical frame address is relative to the frame pointer, not to the stack pointer.
    pub from_frame_pointer: bool,
    /// Canonical frame address (the caller's stack pointer) less the register, in bytes.
    pub cfa: u16,
    /// Position of the return address, in bytes from the canonical frame address; `None`: in the
    /// link register.
    pub return_address: Option<i16>,
    /// Position of the caller's frame pointer, likewise; `None`: still in its register.
    pub frame_pointer: Option<i16>,
}

const NONE: u64 = 0x8000;
/// Flag beside any meaning: the code busy-waits.
pub(crate) const SPINNING: u64 = 1 << 49;

impl Place {
    /// Packs the place into a word.
    pub fn pack(self) -> u64 {
        match self {
            Self::End => 0,
            Self::Fragment(fragment) => 1 << 62 | u64::from(fragment),
            Self::Caller(rule) => {
                let offset = |at: Option<i16>| at.map_or(NONE, |at| u64::from(at as u16));
                2 << 62
                    | u64::from(rule.from_frame_pointer) << 48
                    | u64::from(rule.cfa) << 32
                    | offset(rule.return_address) << 16
                    | offset(rule.frame_pointer)
            }
        }
    }

    /// Unpacks the word.
    pub fn unpack(word: u64) -> Option<Self> {
        let offset = |word: u64| (word & 0xffff != NONE).then_some(word as u16 as i16);
        match word >> 62 {
            0 => Some(Self::End),
            1 => Some(Self::Fragment(word as u32)),
            2 => Some(Self::Caller(Rule {
                from_frame_pointer: word >> 48 & 1 != 0,
                cfa: (word >> 32) as u16,
                return_address: offset(word >> 16),
                frame_pointer: offset(word),
            })),
            _ => None,
        }
    }
}
