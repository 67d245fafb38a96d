//! Reasons for the end of an unwind.

use crate::stack::Missing;

/// Reason why a caller could not be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnwindFailure {
    /// The code has no tables, and the frame pointer leads nowhere.
    #[error("no unwind tables, and no frame pointer")]
    NoTable,
    /// The tables are damaged, or unlike any program's.
    #[error("bad unwind tables")]
    BadTable,
    /// The tables use a register (by DWARF number) that was not recorded or not preserved.
    #[error("the value of register {0} is not known")]
    UnknownRegister(u16),
    /// The stack pointer would move back, which no call does.
    #[error("the stack does not advance")]
    NotAdvancing,
    /// The value in the place of a return address is impossible.
    #[error("bad return address")]
    BadReturnAddress,
}

/// Reason for the end of an unwind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnwindStop {
    Missing(Missing),
    Failure(UnwindFailure),
}

impl From<Missing> for UnwindStop {
    fn from(missing: Missing) -> Self {
        Self::Missing(missing)
    }
}

impl From<UnwindFailure> for UnwindStop {
    fn from(failure: UnwindFailure) -> Self {
        Self::Failure(failure)
    }
}
