use profile::ImageAddress;

/// Reason why code could not be analysed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes are no instruction.
    #[error("no instruction at {:#x}", .0.0)]
    Invalid(ImageAddress),
    /// The code ends within an instruction.
    #[error("the code ends within the instruction at {:#x}", .0.0)]
    Truncated(ImageAddress),
    /// The procedure has no bytes.
    #[error("the procedure at {:#x} is empty", .0.0)]
    Empty(ImageAddress),
    /// The procedure is larger than any compiler's; see [`crate::MAX_PROCEDURE`].
    #[error("the procedure at {:#x} is said to have {size} bytes; at most {} are analysed", .start.0, crate::MAX_PROCEDURE)]
    TooLarge {
        /// Its start.
        start: ImageAddress,
        /// Its size in bytes.
        size: u64,
    },
    /// The procedure reaches past the end of the address space.
    #[error("the procedure at {:#x} reaches past the end of the address space", .0.0)]
    Wraps(ImageAddress),
    /// Jumps into the middle of instructions give more instructions than any program has; see
    /// [`crate::MAX_INSTRUCTIONS`].
    #[error("the procedure at {:#x} has more than {} overlapping instructions", .0.0, crate::MAX_INSTRUCTIONS)]
    TooManyInstructions(ImageAddress),
}
