//! The way from a frame to its caller by offsets alone.

use crate::code_frames::CodeRule;
use crate::{ModuleData, UnwindMachine};
use languages::go::GoFrameKind;

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

/// The rule at an address without tables: out of the code, or of a Go program's functions. The
/// frames of these have the caller's frame pointer on top.
pub(crate) fn tableless_rule(module: &ModuleData, address: u64) -> CodeRule {
    match go_caller_rule(module, address) {
        Some(rule) => CodeRule::Caller(rule),
        None => module.code_frames.rule_at(address),
    }
}

fn go_caller_rule(module: &ModuleData, address: u64) -> Option<CallerRule> {
    let functions = module.go_functions.as_ref()?;
    let function = functions.function_at(address)?;
    if module.machine != Some(UnwindMachine::X86_64)
        || functions.frame_kind(&function) != GoFrameKind::Ordinary
    {
        return None;
    }
    let mut sizes = functions.frame_sizes(&function).into_iter();
    let (_, size) = sizes.find(|(addresses, _)| addresses.contains(&address))?;
    let size = i64::from(u32::try_from(size).ok()?);
    Some(CallerRule {
        from_frame_pointer: false,
        cfa: size + 8,
        return_address: Some(-8),
        frame_pointer: (size > 0).then_some(-16),
    })
}
