//! The rule from a frame to its caller by offsets alone.

/// The rule that leads to the caller from one place in a function, if offsets from the stack
/// pointer or the frame pointer suffice. They do at almost all places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallerRule {
    /// True if the canonical frame address is relative to the frame pointer, and not to the stack
    /// pointer.
    pub from_frame_pointer: bool,
    /// Canonical frame address (the caller's stack pointer) minus that register, in bytes.
    pub cfa: i64,
    /// Place of the return address, in bytes from the canonical frame address; `None` if it is in
    /// the link register.
    pub return_address: Option<i64>,
    /// Place of the caller's frame pointer, likewise; `None` if it is still in its register.
    pub frame_pointer: Option<i64>,
}

impl CallerRule {
    /// The rule of code that keeps a frame pointer.
    pub const WITH_FRAME_POINTER: Self = Self {
        from_frame_pointer: true,
        cfa: 16,
        return_address: Some(-8),
        frame_pointer: Some(-16),
    };
}
