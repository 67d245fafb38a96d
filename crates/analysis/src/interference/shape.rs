//! Properties that distinguish executions, and durations.

use profile::{BlockId, TRACED_ARGUMENTS};

/// Properties that distinguish executions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub block: BlockId,
    pub collapsed: u64,
    /// The values of the arguments that count, 0 for others.
    pub arguments: [u64; TRACED_ARGUMENTS],
    /// Executions of traced blocks inside.
    pub inside: u64,
}

impl Shape {
    /// The arguments' magnitudes.
    pub fn bucket(&self) -> u64 {
        let magnitude = |value: &u64| u64::from(64 - value.leading_zeros());
        self.arguments
            .iter()
            .fold(0, |bucket, value| bucket << 8 | magnitude(value))
    }
}

/// A hash of arguments, to be mixed with something else.
#[inline]
pub(super) fn argument_hash(arguments: &[u64; TRACED_ARGUMENTS]) -> u64 {
    let odd = [
        0x9e37_79b9_7f4a_7c15u64,
        0xc2b2_ae3d_27d4_eb4f,
        0x1656_67b1_9e37_79f9,
    ];
    let terms = arguments.iter().zip(odd);
    terms.fold(0, |sum, (value, odd)| {
        sum.wrapping_add(value.wrapping_mul(odd))
    })
}

/// The key of an exact kind.
#[inline]
pub(super) fn exact_key(exact: u64, arguments: &[u64; TRACED_ARGUMENTS]) -> u64 {
    exact.wrapping_add(argument_hash(arguments))
}

/// Duration of an execution that waited, in ticks: in all, without the time that it was asked to wait, and also without
/// waiting for others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waited {
    pub whole: u64,
    pub taken: u64,
    pub unhindered: u64,
}
