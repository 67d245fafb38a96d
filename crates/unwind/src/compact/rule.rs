//! The unwind rule of a place in a form that fits into 16 bytes and needs no evaluation.

/// The base of a frame's canonical frame address (CFA), or the lack of a caller.
///
/// `cfa_offset` and `extra` are those of the [`CompactRule`]; the collector's BPF program
/// (`unwind_rules.h` and `unwind_steps.h` of crate `sampler`) uses the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CompactKind {
    /// The tables do not cover the place: use its frame pointer.
    Uncovered = 0,
    /// The function has no caller.
    Root = 1,
    /// The tables need more than a compact rule can express.
    Unsupported = 2,
    /// Stack pointer and offset.
    StackPointer = 3,
    /// Frame pointer and offset.
    FramePointer = 4,
    /// The word at stack pointer and offset, plus `extra`.
    StackMemory = 5,
    /// The word at frame pointer and offset, plus `extra`.
    FrameMemory = 6,
    /// A stub of the linkage table: stack pointer and offset, plus 8 from byte `extra` of its 16
    /// bytes on.
    LinkageStub = 7,
    /// The code returns from a signal handler: the kernel put the interrupted registers on the
    /// stack.
    SignalReturn = 8,
    /// The register with DWARF number `extra`, and offset: known in the innermost frame only.
    Register = 9,
    /// Base register (`rbx` of x86-64) and offset.
    BaseRegister = 10,
    /// The function switched to another stack, from which the frame pointer leads back.
    StackSwitch = 11,
}

/// Place of the caller's frame pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CompactFrame {
    /// The frame pointer is still in its register.
    Same = 0,
    /// The frame pointer is at an offset from the canonical frame address.
    AtCfa = 1,
    /// The frame pointer is at an offset from this frame's frame pointer.
    AtFrame = 2,
    /// The frame pointer is at no place that a compact rule can express.
    Lost = 3,
}

/// Place of the return address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CompactReturn {
    /// The return address is at an offset from the canonical frame address.
    AtCfa = 0,
    /// The return address is in the link register, which only holds it in the innermost frame.
    InLink = 1,
    /// The return address is in the register whose DWARF number is the offset: known in the
    /// innermost frame only. C libraries' `vfork` keeps it there, because the child overwrites the
    /// stack.
    InRegister = 2,
}

/// The rule to the caller of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CompactRule {
    /// The base of the canonical frame address.
    pub kind: CompactKind,
    /// Place of the caller's frame pointer.
    pub frame: CompactFrame,
    /// Place of the return address.
    pub link: CompactReturn,
    /// A small number that some kinds need.
    pub extra: u8,
    /// Offset of the canonical frame address.
    pub cfa_offset: i32,
    /// Offset of the return address, or the number of its register.
    pub return_offset: i16,
    /// Place of the caller's base register (`rbx` of x86-64), in words below the canonical frame
    /// address, which glibc's lazy binding uses. 0: still in its register.
    pub base_slot: u16,
    /// Offset of the caller's frame pointer.
    pub frame_offset: i32,
}

/// [`CompactRule::base_slot`] of a register that a compact rule cannot locate.
pub(crate) const BASE_LOST: u16 = u16::MAX;

/// The size of a rule in bytes.
pub(crate) const RULE_SIZE: usize = 16;

impl CompactRule {
    /// Makes a rule that consists of its kind.
    pub const fn bare(kind: CompactKind) -> Self {
        Self {
            kind,
            frame: CompactFrame::Same,
            link: CompactReturn::AtCfa,
            extra: 0,
            cfa_offset: 0,
            return_offset: 0,
            base_slot: 0,
            frame_offset: 0,
        }
    }

    /// Returns the rule in the form that the kernel half reads.
    pub fn to_bytes(self) -> [u8; RULE_SIZE] {
        let mut bytes = [0; RULE_SIZE];
        let small = [
            self.kind as u8,
            self.frame as u8,
            self.link as u8,
            self.extra,
        ];
        bytes[..4].copy_from_slice(&small);
        bytes[4..8].copy_from_slice(&self.cfa_offset.to_ne_bytes());
        bytes[8..10].copy_from_slice(&self.return_offset.to_ne_bytes());
        bytes[10..12].copy_from_slice(&self.base_slot.to_ne_bytes());
        bytes[12..].copy_from_slice(&self.frame_offset.to_ne_bytes());
        bytes
    }

    /// Parses the bytes of [`Self::to_bytes`]; `None` for anything else.
    pub fn from_bytes(bytes: [u8; RULE_SIZE]) -> Option<Self> {
        use CompactKind::*;
        const KINDS: [CompactKind; 12] = [
            Uncovered,
            Root,
            Unsupported,
            StackPointer,
            FramePointer,
            StackMemory,
            FrameMemory,
            LinkageStub,
            SignalReturn,
            Register,
            BaseRegister,
            StackSwitch,
        ];
        const FRAMES: [CompactFrame; 4] = [
            CompactFrame::Same,
            CompactFrame::AtCfa,
            CompactFrame::AtFrame,
            CompactFrame::Lost,
        ];
        const LINKS: [CompactReturn; 3] = [
            CompactReturn::AtCfa,
            CompactReturn::InLink,
            CompactReturn::InRegister,
        ];
        let [kind, frame, link, extra, rest @ ..] = bytes;
        let [c0, c1, c2, c3, r0, r1, b0, b1, f0, f1, f2, f3] = rest;
        Some(Self {
            kind: *KINDS.get(usize::from(kind))?,
            frame: *FRAMES.get(usize::from(frame))?,
            link: *LINKS.get(usize::from(link))?,
            extra,
            cfa_offset: i32::from_ne_bytes([c0, c1, c2, c3]),
            return_offset: i16::from_ne_bytes([r0, r1]),
            base_slot: u16::from_ne_bytes([b0, b1]),
            frame_offset: i32::from_ne_bytes([f0, f1, f2, f3]),
        })
    }
}
