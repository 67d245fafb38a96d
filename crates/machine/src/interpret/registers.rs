//! Register values read from a thread at a sample.

/// Registers of interrupted x86-64 code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// The integer registers in the order of their encoding: `rax`, `rcx`, `rdx`, `rbx`, `rsp`,
    /// `rbp`, `rsi`, `rdi`, `r8` to `r15`.
    pub integer: [u64; 16],
    /// `rflags`.
    pub flags: u64,
    /// The program counter, an address in the process.
    pub counter: u64,
    /// Start of the segment `fs`: the thread's own memory.
    pub thread: Option<u64>,
    /// The low 16 bytes of the first vector registers, in halves, if rounding is to nearest and
    /// denormals are not flushed to 0.
    pub vector: Option<[[u64; 2]; 16]>,
}
