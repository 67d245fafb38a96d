//! Contents of a file, whichever form it has.

use super::addresses::AddressNames;

/// A stack and its costs, in order of the value types.
pub(super) struct LegacyStack {
    /// Innermost first, a range of [`LegacyProfile::addresses`].
    pub frames: std::ops::Range<usize>,
    pub values: [i64; 4],
}

/// Contents of a file.
#[derive(Default)]
pub(super) struct LegacyProfile {
    pub value_types: Vec<(&'static str, &'static str)>,
    pub stacks: Vec<LegacyStack>,
    pub addresses: Vec<u64>,
    pub names: AddressNames,
    pub notes: Vec<String>,
}

impl LegacyProfile {
    /// Adds a stack, innermost address first.
    pub fn add_stack(&mut self, addresses: &[u64], values: [i64; 4]) {
        let start = self.addresses.len();
        self.addresses.extend_from_slice(addresses);
        self.stacks.push(LegacyStack {
            frames: start..self.addresses.len(),
            values,
        });
    }

    pub fn stack_frames(&self, stack: &LegacyStack) -> &[u64] {
        self.addresses.get(stack.frames.clone()).unwrap_or_default()
    }
}
