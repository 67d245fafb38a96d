//! Unwind tables for readers that cannot evaluate DWARF, such as a BPF program.

mod compile;
mod expression;
mod rule;
mod table;
mod walk;

pub use rule::{CompactFrame, CompactKind, CompactReturn, CompactRule};
pub use table::CompactTable;
pub use walk::CompactUnwinder;
