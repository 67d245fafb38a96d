//! Unwind tables for readers that cannot evaluate DWARF, such as a BPF program.

mod compile;
mod expression;
#[cfg(feature = "model")]
mod model;
mod rule;
mod table;

#[cfg(feature = "model")]
pub use model::CompactUnwinder;
pub use rule::{CompactFrame, CompactKind, CompactReturn, CompactRule};
pub use table::CompactTable;
