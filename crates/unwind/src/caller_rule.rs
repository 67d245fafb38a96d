//! The way from a frame to its caller by offsets alone.

/// The way to the caller from one place in a function, where that takes no more than offsets from
/// the stack pointer or the frame pointer. Almost all places are such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallerRule {
    /// True if the canonical frame address counts from the frame pointer, not from the stack pointer.
    pub from_frame_pointer: bool,
    /// Canonical frame address (the caller's stack pointer) less that register, in bytes.
    pub cfa: i64,
    /// Place of the return address, in bytes from the canonical frame address; `None`: in the link
    /// register.
    pub return_address: Option<i64>,
    /// Place of the caller's frame pointer, likewise; `None`: in its register still.
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
