//! What ends an unwind.

use crate::stack::Missing;

/// Why a caller could not be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// There are no tables for the code, and the frame pointer leads nowhere.
    #[error("no unwind tables, and no frame pointer")]
    NoTable,
    /// The tables are damaged, or say what no program's tables say.
    #[error("bad unwind tables")]
    BadTable,
    /// The tables build on a register (by DWARF number) that was not recorded or not preserved.
    #[error("the value of register {0} is not known")]
    UnknownRegister(u16),
    /// The stack pointer would move back, as in no call.
    #[error("the stack does not advance")]
    NotAdvancing,
    /// What should be a return address cannot be one.
    #[error("bad return address")]
    BadReturnAddress,
}

/// What ends an unwind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Missing(Missing),
    Failure(Failure),
}

impl From<Missing> for Stop {
    fn from(missing: Missing) -> Self {
        Self::Missing(missing)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}
